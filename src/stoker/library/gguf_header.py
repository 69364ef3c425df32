"""The header of a GGUF file: scalar metadata and how long the file must be. Not a weight reader.

Reading stops before tensor data and never builds the token lists, so that listing many models stays
cheap. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3, little-endian).
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from stoker.errors import CorruptModel

Scalar = int | float | bool | str

_SCALAR_FORMATS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_MAX_ARRAY_DEPTH = 4

# ggml tensor type -> (elements per block, bytes per block)
TENSOR_BLOCKS: dict[int, tuple[int, int]] = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip

# general.file_type -> the name people use in file names
FILE_TYPE_LABELS: dict[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K",
    19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL",
    26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16",
    36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What the header says; arrays are kept as their lengths only."""

    metadata: dict[str, Scalar]
    array_lengths: dict[str, int]
    num_tensors: int
    min_file_bytes: int  # where the last tensor ends

    def text(self, key: str) -> str | None:
        value = self.metadata.get(key)
        return value if isinstance(value, str) else None

    def integer(self, key: str) -> int | None:
        value = self.metadata.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_gguf_header(path: Path) -> GgufHeader:
    """The header of `path`. Raises CorruptModel when it is not GGUF or the file is cut short."""
    stat = path.stat()
    return _read_cached(path.resolve(), stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=256)
def _read_cached(path: Path, size_bytes: int, _mtime_ns: int) -> GgufHeader:
    if size_bytes < 24:
        raise CorruptModel(f"{path.name} is not a GGUF file: only {size_bytes} bytes")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            header = _Cursor(data).header()
        except (struct.error, UnicodeDecodeError, IndexError, OverflowError) as error:
            raise CorruptModel(f"{path.name}: the GGUF header is damaged or cut short") from error
        except CorruptModel as error:
            raise CorruptModel(f"{path.name}: {error.message}") from error
    if size_bytes < header.min_file_bytes:
        raise CorruptModel(f"{path.name} is cut short: {size_bytes} bytes of {header.min_file_bytes}")
    return header


class _Cursor:
    """Walks the header; every read past the end raises struct.error."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.offset = 0

    def header(self) -> GgufHeader:
        if self.data[:4] != b"GGUF":
            raise CorruptModel("not a GGUF file (wrong magic)")
        self.offset = 4
        version = self.number("<I")
        if version not in (2, 3):
            raise CorruptModel(f"GGUF version {version} is not supported (2 and 3 are)")
        num_tensors, num_keys = int(self.number("<Q")), int(self.number("<Q"))
        metadata: dict[str, Scalar] = {}
        lengths: dict[str, int] = {}
        for _ in range(num_keys):
            key, kind = self.string(), int(self.number("<I"))
            if kind == _ARRAY:
                lengths[key] = self.skip_array()
            else:
                metadata[key] = self.scalar(kind)
        return GgufHeader(metadata, lengths, num_tensors, self.tensors_end(num_tensors, metadata))

    def tensors_end(self, num_tensors: int, metadata: dict[str, Scalar]) -> int:
        """Bytes up to the end of the last tensor; a type unknown here counts as empty."""
        end = 0
        for _ in range(num_tensors):
            self.skip(int(self.number("<Q")))
            elements = 1
            for _ in range(int(self.number("<I"))):
                elements *= int(self.number("<Q"))
            per_block, block_bytes = TENSOR_BLOCKS.get(int(self.number("<I")), (1, 0))
            end = max(end, int(self.number("<Q")) + elements // per_block * block_bytes)
        alignment = metadata.get("general.alignment", 32)
        step = alignment if isinstance(alignment, int) and alignment > 0 else 32
        return (self.offset + step - 1) // step * step + end if num_tensors else self.offset

    def number(self, form: str) -> int | float | bool:
        (value,) = struct.unpack_from(form, self.data, self.offset)
        self.offset += struct.calcsize(form)
        assert isinstance(value, int | float)
        return value

    def string(self) -> str:
        length = int(self.number("<Q"))
        start = self.offset
        self.skip(length)
        return self.data[start : self.offset].decode("utf-8")

    def scalar(self, kind: int) -> Scalar:
        if kind == _STRING:
            return self.string()
        if kind not in _SCALAR_FORMATS:
            raise CorruptModel(f"unknown metadata type {kind}")
        return self.number(_SCALAR_FORMATS[kind])

    def skip(self, num_bytes: int) -> None:
        if self.offset + num_bytes > len(self.data):
            raise CorruptModel("the header is cut short")
        self.offset += num_bytes

    def skip_array(self, depth: int = 1) -> int:
        kind, count = int(self.number("<I")), int(self.number("<Q"))
        if kind == _STRING:
            self.skip_strings(count)
        elif kind == _ARRAY and depth < _MAX_ARRAY_DEPTH:
            for _ in range(count):
                self.skip_array(depth + 1)
        elif kind in _SCALAR_FORMATS:
            self.skip(count * struct.calcsize(_SCALAR_FORMATS[kind]))
        else:
            raise CorruptModel(f"unknown array type {kind}")
        return count

    def skip_strings(self, count: int) -> None:
        # Vocabularies have a quarter million entries: this loop is most of the reading time.
        data, offset, unpack = self.data, self.offset, struct.Struct("<Q").unpack_from
        for _ in range(count):
            offset += 8 + unpack(data, offset)[0]
        self.offset = offset
        self.skip(0)
