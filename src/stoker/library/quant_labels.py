"""Names of GGUF files: which quantization, which shard of how many, what to leave out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

_LABEL = re.compile(
    r"(?:^|[.\-_/])((?:UD-)?I?Q\d(?:_[A-Z0-9]+)*|TQ\d_\d|MXFP4(?:_MOE)?|BF16|FP?16|FP?32)(?=$|[.\-/])",
    re.IGNORECASE,
)
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})$")
_SYNONYMS = {"FP16": "F16", "FP32": "F32"}
_FIRST_DIGIT = re.compile(r"\d")
_SIDE_FILES = ("mmproj", "imatrix", "ggml-vocab")


@dataclass(frozen=True, slots=True)
class GgufName:
    """What a GGUF's file name tells."""

    stem: str  # without `.gguf` and the shard numbers
    label: str | None  # upper case, `Q4_K_M`
    shard: int  # 1-based
    num_shards: int


def parse_gguf_name(name: str) -> GgufName:
    """Reads `org/model-Q4_K_M-00001-of-00003.gguf` and its like; `name` may hold folders."""
    path = PurePosixPath(name)
    stem = path.name[: -len(".gguf")] if path.name.lower().endswith(".gguf") else path.name
    shard = _SHARD.search(stem)
    if shard:
        stem = stem[: shard.start()]
    labels = _LABEL.findall(stem) or _LABEL.findall(str(path.parent))
    label = labels[-1].upper() if labels else None
    label = _SYNONYMS.get(label, label) if label else None
    return GgufName(stem, label, int(shard[1]) if shard else 1, int(shard[2]) if shard else 1)


def is_side_file(name: str) -> bool:
    """Projectors, importance matrices and bare vocabularies are GGUF files but no models."""
    return any(part in PurePosixPath(name).name.lower() for part in _SIDE_FILES)


def label_bits(label: str | None) -> int | None:
    """Nominal bits of `Q4_K_M` (4); None for the plain float types."""
    if label is None or label in {"F32", "F16", "BF16"}:
        return None
    digit = _FIRST_DIGIT.search(label.removeprefix("MXFP") if label.startswith("MXFP") else label)
    return int(digit[0]) if digit else None
