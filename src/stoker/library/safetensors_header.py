"""The headers of safetensors files: which shards a folder has, which tensors, and whether any is cut short.

Not a weight reader. Format: https://huggingface.co/docs/safetensors (u64 header length, JSON, data).
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from stoker.errors import CorruptModel

_MAX_HEADER_BYTES = 100_000_000  # the limit the format's reference reader sets
_INDEX_NAME = "model.safetensors.index.json"


def find_shards(folder: Path) -> list[Path]:
    """The weight files of `folder`, by its index when it has one; empty when there are none.

    Raises CorruptModel when the index names a file that is not there.
    """
    index = folder / _INDEX_NAME
    if index.is_file():
        return _indexed_shards(folder, index)
    single = folder / "model.safetensors"
    if single.is_file():
        return [single]
    shards = sorted(path for path in folder.glob("*.safetensors") if path.is_file())
    # Adapters are not models, and `consolidated` repeats the weights under other names.
    return [path for path in shards if not path.name.startswith(("adapter", "consolidated"))]


def _indexed_shards(folder: Path, index: Path) -> list[Path]:
    try:
        names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
        shards = [folder / name for name in names if Path(name).name == name]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptModel(f"{index.name} is damaged") from error
    if not shards or len(shards) != len(names):
        raise CorruptModel(f"{index.name} names no usable weight files")
    missing = [shard.name for shard in shards if not shard.is_file()]
    if missing:
        raise CorruptModel(f"{len(missing)} of {len(shards)} weight files are missing, first {missing[0]}")
    return shards


def read_tensor_names(path: Path) -> list[str]:
    """The tensors of one file. Raises CorruptModel when the header or the data is incomplete."""
    size_bytes = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(8)
        if len(prefix) < 8:
            raise CorruptModel(f"{path.name} is cut short: {size_bytes} bytes")
        (header_bytes,) = struct.unpack("<Q", prefix)
        if header_bytes > min(_MAX_HEADER_BYTES, size_bytes - 8):
            raise CorruptModel(f"{path.name} is cut short or not a safetensors file")
        header = _parse(path, file.read(header_bytes))
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    try:
        end = 8 + header_bytes + max((int(entry["data_offsets"][1]) for entry in tensors.values()), default=0)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise CorruptModel(f"{path.name}: the safetensors header is damaged") from error
    if size_bytes < end:
        raise CorruptModel(f"{path.name} is cut short: {size_bytes} bytes of {end}")
    return list(tensors)


def _parse(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise CorruptModel(f"{path.name}: the safetensors header is damaged") from error
    if not isinstance(header, dict):
        raise CorruptModel(f"{path.name}: the safetensors header is damaged")
    return header
