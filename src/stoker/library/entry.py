"""What the library says about one model on disk. Plain values; nothing here reads a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ModelFormat = Literal["safetensors", "mlx", "gguf", "ctranslate2"]
ModelKind = Literal["chat", "text", "embedding", "rerank", "speech", "other"]
ModelSource = Literal["hub", "store", "path"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a folder was found; filled by the scan before the folder is read."""

    id: str  # `org/repo`, a store name, or a folder name
    source: ModelSource
    revision: str | None = None  # commit of a hub snapshot
    canonical: bool = True  # False for older snapshots of the same repository
    label_quants: bool = False  # ids of GGUF files always carry `:Q4_K_M` (hub repositories)


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model that is complete on disk."""

    id: str  # `org/repo`, `org/repo:Q4_K_M` for a GGUF of a hub repository, or a store name
    path: Path  # what open_checkpoint takes: a folder, or the (first) .gguf file
    format: ModelFormat
    kind: ModelKind  # "chat" has a chat template, "text" is a language model without one
    architecture: str  # model_type of config.json, or general.architecture of a GGUF
    size_bytes: int  # weights and the small files beside them
    source: ModelSource
    modified: float  # unix seconds, newest weight file
    weights: tuple[Path, ...] = ()  # the weight files, links not followed
    quant_bits: int | None = None  # None = not quantized, or not said
    quant_group_size: int | None = None
    quant_label: str | None = None  # GGUF's name for its mixture, `Q4_K_M`
    context_length: int | None = None  # tokens, as the checkpoint declares
    vision: bool = False  # declares an image tower
    audio: bool = False  # declares an audio tower and has its weights
    revision: str | None = None
    canonical: bool = True

    @property
    def repo_id(self) -> str:
        """The id without a GGUF label."""
        return self.id.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Unusable:
    """Something that looks like a model and cannot be served; never listed as one."""

    id: str
    path: Path
    reason: str  # completes "<id>: ..."


Found = ModelEntry | Unusable


def human_size(num_bytes: float) -> str:
    """`98.4 MB`: decimal units, as hubs and disks count."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(num_bytes) < 1000:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.2f} TB"
