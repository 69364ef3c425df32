"""Loading formats: one file each, all giving the same named weights (`Checkpoint`).

from stoker.models.formats import open_checkpoint
checkpoint = open_checkpoint("model.gguf")
checkpoint.config["model_type"], checkpoint.get("model.norm.weight")
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from stoker.errors import ModelNotFound, UnsupportedModel
from stoker.models.weights import Checkpoint

if TYPE_CHECKING:
    import os

    from tokenizers import Tokenizer

__all__ = ["ModelCheckpoint", "open_checkpoint"]


class ModelCheckpoint(Checkpoint, Protocol):
    """A checkpoint with everything that lies beside its weights."""

    nbytes: int  # of all weights, as stored

    @property
    def generation_config(self) -> dict[str, Any]:
        """The content of generation_config.json, or {}; `eos_token_id` when the format says it."""
        ...

    def tokenizer(self) -> tuple[Tokenizer, dict[str, Any]]:
        """The tokenizer, and the content of tokenizer_config.json (chat_template, bos_token, ...).
        Built anew at each call."""
        ...


def open_checkpoint(path: str | os.PathLike[str]) -> ModelCheckpoint:
    """A .gguf file, or a folder with config.json and .safetensors files (dense or quantized by
    MLX). A folder that holds nothing but one GGUF model opens that.

    Raises ModelNotFound, UnsupportedModel (a format we cannot read) or CorruptModel."""
    from stoker.models.formats.gguf import GgufCheckpoint
    from stoker.models.formats.hf_folder import read_json
    from stoker.models.formats.mlx import MlxCheckpoint, is_mlx_quantized
    from stoker.models.formats.safetensors import SafetensorsCheckpoint

    place = Path(path).expanduser()
    if not place.exists():
        raise ModelNotFound(f"{place} does not exist")
    if place.is_file():
        if not _is_gguf(place):
            raise UnsupportedModel(f"{place} is neither a folder nor a .gguf file")
        return GgufCheckpoint(place)
    if not (place / "config.json").exists():
        return GgufCheckpoint(_only_gguf(place))
    config = read_json(place / "config.json")
    if is_mlx_quantized(config):
        return MlxCheckpoint(place, config)
    quantization = config.get("quantization_config")
    if isinstance(quantization, dict) and (method := quantization.get("quant_method")):
        raise UnsupportedModel(
            f"{place} is quantized with {method}, which stoker does not read; "
            "use the original weights with --quantize, or a GGUF or MLX version of the model"
        )
    return SafetensorsCheckpoint(place, config)


def _is_gguf(file: Path) -> bool:
    """By its name or, for the blobs of a download cache, by its first bytes."""
    if file.suffix.lower() == ".gguf":
        return True
    with file.open("rb") as content:
        return content.read(4) == b"GGUF"


def _only_gguf(folder: Path) -> Path:
    found = sorted(folder.glob("*.gguf"))
    firsts = [path for path in found if "-of-" not in path.name or "-00001-of-" in path.name]
    if len(firsts) == 1:
        return firsts[0]
    if not firsts:
        raise UnsupportedModel(f"{folder} has no config.json, so it is not a model folder")
    names = ", ".join(path.name for path in firsts)
    raise UnsupportedModel(f"{folder} has several models; name one of its files: {names}")
