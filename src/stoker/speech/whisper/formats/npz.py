"""NumPy's .npz as mapped tensors: a zip of .npy members, which MLX stores uncompressed.

Member: local zip header (30 bytes, then name and extra field) | .npy: magic, version, header length,
a Python literal {descr, fortran_order, shape} | data.
"""

from __future__ import annotations

import ast
import struct
import zipfile
from pathlib import Path

from stoker.errors import CorruptModel, ModelNotFound, UnsupportedModel
from stoker.models.formats.mapped import MappedFile
from stoker.models.formats.safetensors import Entry

_DTYPES = {
    "<f4": ("F32", 4), "<f2": ("F16", 2), "<u4": ("U32", 4), "<i4": ("I32", 4), "<i8": ("I64", 8),
    "|u1": ("U8", 1), "|i1": ("I8", 1), "<f8": ("F64", 8), "<u8": ("U64", 8),
}  # fmt: skip
_LOCAL_HEADER_BYTES = 30


def read_npz(path: Path) -> dict[str, Entry]:
    """Array name -> where it lies. Raises CorruptModel, UnsupportedModel or ModelNotFound."""
    file = MappedFile(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except FileNotFoundError:
        raise ModelNotFound(f"{path} does not exist") from None
    except (zipfile.BadZipFile, OSError) as error:
        raise CorruptModel(f"{path} is not a valid .npz file: {error}") from error
    entries = {}
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED:
            raise UnsupportedModel(f"{path} is compressed; stoker reads uncompressed .npz files")
        entries[member.filename.removesuffix(".npy")] = _entry(file, member)
    return entries


def _entry(file: MappedFile, member: zipfile.ZipInfo) -> Entry:
    try:
        header = file.bytes[member.header_offset :][:_LOCAL_HEADER_BYTES].tobytes()
        name_bytes, extra_bytes = struct.unpack_from("<HH", header, 26)
        start = member.header_offset + _LOCAL_HEADER_BYTES + name_bytes + extra_bytes
        magic = file.bytes[start : start + 12].tobytes()
        if magic[:6] != b"\x93NUMPY":
            raise ValueError("not an array")
        wide = magic[6] > 1  # version 1 has a u16 length, later ones a u32
        (length,) = struct.unpack_from("<I" if wide else "<H", magic, 8)
        first = start + (12 if wide else 10)
        described = ast.literal_eval(file.bytes[first : first + length].tobytes().decode("latin-1").strip())
        shape = tuple(int(size) for size in described["shape"])
        dtype, itemsize = _DTYPES[described["descr"]]
        if described["fortran_order"] and len(shape) > 1:
            raise ValueError("stored column by column")
    except (struct.error, ValueError, KeyError, TypeError, SyntaxError, IndexError) as error:
        raise CorruptModel(f"{file.path}: member {member.filename} cannot be read: {error}") from error
    nbytes = itemsize
    for size in shape:
        nbytes *= size
    offset = first + length
    if offset + nbytes > min(file.nbytes, start + member.file_size):
        raise CorruptModel(f"{file.path} is truncated: member {member.filename}")
    return Entry(file, dtype, shape, offset, nbytes)
