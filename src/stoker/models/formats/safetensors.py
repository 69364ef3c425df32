"""Hugging Face safetensors folders as a `Checkpoint`: dense weights, views of the mapped files.

File layout (https://github.com/huggingface/safetensors): header length u64, little-endian |
JSON {name: {dtype, shape, data_offsets: [first, end)}} | data, offsets counted from here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from stoker.errors import CorruptModel, UnsupportedModel
from stoker.models.formats.hf_folder import read_json, read_optional_json, read_tokenizer
from stoker.models.formats.mapped import MappedFile, MappedMatrix
from stoker.models.weights import MatrixSource, Weight, two_dimensions

if TYPE_CHECKING:
    from tokenizers import Tokenizer

INDEX_NAME = "model.safetensors.index.json"
SINGLE_NAME = "model.safetensors"
_MAX_HEADER_BYTES = 100_000_000  # the format's own limit

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "U8": torch.uint8,
    "I8": torch.int8,
    "U16": torch.uint16,
    "I16": torch.int16,
    "U32": torch.uint32,
    "I32": torch.int32,
    "U64": torch.uint64,
    "I64": torch.int64,
    "BOOL": torch.bool,
}
_WEIGHT_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one tensor lies."""

    file: MappedFile
    dtype: str  # as the header spells it
    shape: tuple[int, ...]
    offset: int  # bytes from the start of the file
    nbytes: int


class SafetensorsCheckpoint:
    """A folder with config.json and one or more .safetensors files.

    `get` returns views of the mapped files, for reading only: they cost no memory until read."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self.folder = folder
        self.config = config
        self._entries = self._read_entries(folder)
        self.nbytes = sum(entry.nbytes for entry in self._entries.values())

    def _read_entries(self, folder: Path) -> dict[str, Entry]:
        """Where every tensor lies; another container of tensors replaces this."""
        entries: dict[str, Entry] = {}
        for path in weight_files(folder):
            entries.update(read_header(MappedFile(path)))
        _check_index(folder, entries)
        return entries

    def names(self) -> Iterable[str]:
        return self._entries.keys()

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def get(self, name: str) -> Weight:
        entry, dtype = self._dense(name)
        return entry.file.tensor(entry.offset, entry.shape, dtype)

    def matrix(self, name: str) -> MatrixSource:
        entry, dtype = self._dense(name)
        rows, columns = two_dimensions(name, entry.shape)
        return MappedMatrix(entry.file, entry.offset, (rows, columns), dtype)

    def stored(self, name: str) -> tuple[Entry, torch.dtype]:
        """Where a tensor lies, and its type, whatever that is."""
        entry = self._entries.get(name)
        if entry is None:
            raise CorruptModel(f"{self.folder} has no weight {name}")
        dtype = _DTYPES.get(entry.dtype)
        if dtype is None:
            raise UnsupportedModel(
                f"{self.folder}: weight {name} is stored as {entry.dtype}, which stoker does not read"
            )
        return entry, dtype

    def _dense(self, name: str) -> tuple[Entry, torch.dtype]:
        entry, dtype = self.stored(name)
        if dtype not in _WEIGHT_DTYPES:
            raise UnsupportedModel(
                f"{self.folder}: weight {name} is stored as {entry.dtype}; stoker reads F32, F16 and BF16"
            )
        return entry, dtype

    def tokenizer(self) -> tuple[Tokenizer, dict[str, Any]]:
        """tokenizer.json, and the content of tokenizer_config.json with what other files add."""
        return read_tokenizer(self.folder)

    @property
    def generation_config(self) -> dict[str, Any]:
        """generation_config.json, or {} when there is none."""
        return read_optional_json(self.folder / "generation_config.json")


def weight_files(folder: Path) -> list[Path]:
    """The files the index names; without an index model*.safetensors or, failing those, every
    .safetensors file (repositories may hold the same weights again under another name)."""
    index = folder / INDEX_NAME
    if not index.exists():
        found = sorted(folder.glob("*.safetensors"))
        if not found:
            raise CorruptModel(f"{folder} has no .safetensors file")
        single = folder / SINGLE_NAME
        named = [single] if single in found else [path for path in found if path.name.startswith("model")]
        return named or found
    names = sorted(set(_weight_map(index).values()))
    for name in names:
        if Path(name).name != name:
            raise CorruptModel(f"{index} names a file outside its folder: {name!r}")
        if not (folder / name).exists():
            raise CorruptModel(f"{folder / name} is missing; {index.name} lists it")
    return [folder / name for name in names]


def _weight_map(index: Path) -> dict[str, str]:
    found = read_json(index).get("weight_map")
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found.values()):
        raise CorruptModel(f"{index} has no weight_map")
    return found


def _check_index(folder: Path, entries: dict[str, Entry]) -> None:
    index = folder / INDEX_NAME
    if not index.exists():
        return
    for name, file in _weight_map(index).items():
        if name not in entries:
            raise CorruptModel(f"{folder / file} lacks the tensor {name}, which {index.name} says it has")


def read_header(file: MappedFile) -> dict[str, Entry]:
    """Tensor name -> where it lies. Every bound is checked here, once."""
    path = file.path
    if file.nbytes < 8:
        raise CorruptModel(f"{path} is truncated: {file.nbytes} bytes")
    length = int.from_bytes(file.bytes[:8].tobytes(), "little")
    if length > min(file.nbytes - 8, _MAX_HEADER_BYTES):
        raise CorruptModel(f"{path} is damaged or truncated: its header claims {length} bytes")
    try:
        header = json.loads(file.bytes[8 : 8 + length].tobytes())
    except (ValueError, RecursionError) as error:
        raise CorruptModel(f"{path} has a damaged header: {error}") from error
    if not isinstance(header, dict):
        raise CorruptModel(f"{path} has a damaged header: not a JSON object")
    header.pop("__metadata__", None)
    return {name: _entry(file, 8 + length, name, described) for name, described in header.items()}


def _entry(file: MappedFile, start: int, name: str, described: Any) -> Entry:
    try:
        dtype, shape = described["dtype"], tuple(described["shape"])
        first, end = described["data_offsets"]
        sound = (
            isinstance(dtype, str)
            and all(type(size) is int and size >= 0 for size in shape)
            and type(first) is int
            and type(end) is int
            and 0 <= first <= end
        )
    except (TypeError, KeyError, ValueError):
        sound = False
    if not sound:
        raise CorruptModel(f"{file.path} has a damaged header: tensor {name}")
    if start + end > file.nbytes:
        raise CorruptModel(
            f"{file.path} is truncated: tensor {name} ends at byte {start + end}, the file at {file.nbytes}"
        )
    if dtype in _DTYPES:
        expected = _DTYPES[dtype].itemsize
        for size in shape:
            expected *= size
        if expected != end - first:
            raise CorruptModel(
                f"{file.path} has a damaged header: tensor {name} needs {expected} bytes, has {end - first}"
            )
    return Entry(file, dtype, shape, start + first, end - first)
