"""The GGUF container: metadata and where each tensor's bytes lie. Values are not interpreted.

Layout, little-endian (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md):

    magic "GGUF" | version u32 | tensor count u64 | metadata count u64
    metadata: key string | type u32 | value           string: length u64, UTF-8 bytes
    tensors:  name string | rank u32 | sizes u64[rank], innermost first | type u32 | offset u64
    padding to `general.alignment` (32) | tensor data, offsets counted from here
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stoker.errors import CorruptModel, UnsupportedModel
from stoker.models.formats.mapped import MappedFile

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MAX_RANK = 4
_MAX_NESTING = 4
_MIN_METADATA_BYTES = 8 + 4 + 1  # empty key, type, one byte
_MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8  # empty name, rank 1

_BOOL, _STRING, _ARRAY = 7, 8, 9
_SCALARS: Mapping[int, np.dtype[Any]] = {
    0: np.dtype("<u1"),
    1: np.dtype("<i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    7: np.dtype("?"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}

# ggml tensor type number: name, elements per block, bytes per block.
GGML_TYPES: Mapping[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    30: ("BF16", 1, 2),
}
# Types that exist but that we do not read, so that the error can name them.
_OTHER_TYPES: Mapping[int, str] = {
    9: "Q8_1",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    24: "I8",
    25: "I16",
    26: "I32",
    27: "I64",
    28: "F64",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
    40: "NVFP4",
}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where one tensor lies. `shape` is outermost first, as torch counts."""

    name: str
    shape: tuple[int, ...]
    kind: str  # a name in GGML_TYPES
    offset: int  # bytes from the start of the file
    nbytes: int


@dataclass(frozen=True, slots=True)
class GgufFile:
    mapped: MappedFile
    metadata: dict[str, Any]  # scalars as Python values, arrays as lists (strings) or numpy arrays
    tensors: dict[str, TensorInfo]


def read_gguf(path: Path) -> GgufFile:
    """Parse the header of one file. Raises CorruptModel, or UnsupportedModel for a version or
    a tensor type that this reader does not know."""
    mapped = MappedFile(path)
    cursor = _Cursor(mapped.bytes.data.cast("B"), str(path))
    if cursor.take(4) != _MAGIC:
        raise CorruptModel(f"{path} is not a GGUF file: it does not start with the letters GGUF")
    version = cursor.u32()
    if version not in _VERSIONS:
        raise UnsupportedModel(_version_message(path, version))
    num_tensors, num_metadata = cursor.count(_MIN_TENSOR_BYTES), cursor.count(_MIN_METADATA_BYTES)
    metadata: dict[str, Any] = {}
    for _ in range(num_metadata):
        key = cursor.string(strict=True)
        metadata[key] = cursor.value(cursor.u32())
    raw = [_tensor_header(cursor) for _ in range(num_tensors)]
    start = _data_start(cursor, metadata)
    tensors: dict[str, TensorInfo] = {}
    for header in raw:
        info = _locate(header, start, mapped)
        if info.name in tensors:
            raise CorruptModel(f"{path} lists the tensor {info.name} twice")
        tensors[info.name] = info
    return GgufFile(mapped, metadata, tensors)


class _Cursor:
    """A position in the file; every read is checked against its end."""

    def __init__(self, view: memoryview, path: str) -> None:
        self.view = view
        self.path = path
        self.at = 0
        self.end = len(view)

    def fail(self, what: str) -> CorruptModel:
        return CorruptModel(f"{self.path} is damaged or truncated: {what} at byte {self.at}")

    def take(self, nbytes: int) -> bytes:
        start, stop = self.at, self.at + nbytes
        if stop > self.end:
            raise self.fail(f"{nbytes} bytes expected, {self.end - start} left")
        self.at = stop
        return bytes(self.view[start:stop])

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def count(self, min_bytes: int) -> int:
        """A number of things that each take at least `min_bytes` of what is left."""
        value = self.u64()
        if value > (self.end - self.at) // min_bytes:
            raise self.fail(f"a count of {value} does not fit the file")
        return value

    def string(self, *, strict: bool = False) -> str:
        raw = self.take(self.u64())
        try:
            return raw.decode("utf-8", errors="strict" if strict else "replace")
        except UnicodeDecodeError:
            raise self.fail("a name is not valid UTF-8") from None

    def value(self, kind: int, depth: int = 0) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self.array(depth)
        dtype = _SCALARS.get(kind)
        if dtype is None:
            raise self.fail(f"unknown metadata type {kind}")
        return np.frombuffer(self.take(dtype.itemsize), dtype)[0].item()

    def array(self, depth: int) -> Any:
        kind = self.u32()
        if kind == _STRING:
            return self.strings(self.count(8))
        if kind == _ARRAY:
            if depth == _MAX_NESTING:
                raise self.fail("arrays are nested too deeply")
            return [self.value(_ARRAY, depth + 1) for _ in range(self.count(12))]
        dtype = _SCALARS.get(kind)
        if dtype is None:
            raise self.fail(f"unknown metadata type {kind}")
        return np.frombuffer(self.take(self.count(dtype.itemsize) * dtype.itemsize), dtype)

    def strings(self, count: int) -> list[str]:
        # A vocabulary has hundreds of thousands of these, so this loop is written for speed.
        view, at, end = self.view, self.at, self.end
        length_at = struct.Struct("<Q").unpack_from
        found: list[str] = []
        append = found.append
        for _ in range(count):
            stop = at + 8
            if stop <= end:
                stop += length_at(view, at)[0]
            if stop > end:
                self.at = at
                raise self.fail("a string runs past the end of the file")
            append(str(view[at + 8 : stop], "utf-8", "replace"))
            at = stop
        self.at = at
        return found


_Header = tuple[str, tuple[int, ...], int, int]


def _tensor_header(cursor: _Cursor) -> _Header:
    name = cursor.string(strict=True)
    rank = cursor.u32()
    if not 1 <= rank <= _MAX_RANK:
        raise cursor.fail(f"tensor {name} has {rank} dimensions")
    innermost_first = [cursor.u64() for _ in range(rank)]
    return name, tuple(reversed(innermost_first)), cursor.u32(), cursor.u64()


def _data_start(cursor: _Cursor, metadata: Mapping[str, Any]) -> int:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise CorruptModel(f"{cursor.path} is damaged: alignment {alignment!r} is not a power of two")
    return -(-cursor.at // alignment) * alignment


def _locate(header: _Header, start: int, mapped: MappedFile) -> TensorInfo:
    name, shape, number, offset = header
    if number not in GGML_TYPES:
        kind = _OTHER_TYPES.get(number, f"number {number}")
        readable = "it reads " + ", ".join(known for known, _, _ in GGML_TYPES.values())
        raise UnsupportedModel(
            f"{mapped.path}: tensor {name} is stored as {kind}, which stoker does not read ({readable})"
        )
    if 0 in shape:
        raise CorruptModel(f"{mapped.path} is damaged: tensor {name} has a size of 0")
    kind, block, block_bytes = GGML_TYPES[number]
    if shape[-1] % block:
        raise CorruptModel(
            f"{mapped.path}: tensor {name} has rows of {shape[-1]}, not a multiple of {kind}'s {block}"
        )
    nbytes = shape[-1] // block * block_bytes
    for size in shape[:-1]:
        nbytes *= size
    if start + offset + nbytes > mapped.nbytes:
        raise CorruptModel(
            f"{mapped.path} is truncated: tensor {name} ends at byte {start + offset + nbytes}, "
            f"the file at {mapped.nbytes}"
        )
    return TensorInfo(name, shape, kind, start + offset, nbytes)


def _version_message(path: Path, version: int) -> str:
    if int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS:
        return f"{path} is a big-endian GGUF file, which stoker does not read"
    return f"{path} is GGUF version {version}; stoker reads versions 2 and 3"
