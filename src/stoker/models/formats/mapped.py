"""A file mapped into memory, and tensors that are views of its bytes.

Nothing here knows a file format. Views stay valid for as long as they are referenced, also
after `release`, which only tells the system that the pages read so far need not stay in memory.
"""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from stoker.errors import CorruptModel, ModelNotFound

Bytes = npt.NDArray[np.uint8]

# Linux only, and not in every Python's mmap module: do not count the copy-on-write mapping
# against the memory limit, or a file larger than memory could not be mapped at all.
_MAP_NORESERVE = 0x4000
_ON_LINUX = sys.platform.startswith("linux")


class MappedFile:
    """One file, read through the page cache. Raises CorruptModel for an empty file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._map = _map_private(file.fileno())
        except FileNotFoundError:
            raise ModelNotFound(f"{path} does not exist") from None
        except OSError as error:
            raise CorruptModel(f"cannot read {path}: {error.strerror or error}") from error
        except ValueError:
            raise CorruptModel(f"{path} is empty") from None
        self.nbytes = len(self._map)
        self.bytes: Bytes = np.frombuffer(self._map, dtype=np.uint8)

    def tensor(self, offset: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """A view of the file's bytes from `offset` on; a copy only where `offset` is not a
        multiple of the element size, which torch cannot address. The caller has checked bounds."""
        count = 1
        for size in shape:
            count *= size
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        if offset % dtype.itemsize:
            raw = torch.frombuffer(self._map, dtype=torch.uint8, count=count * dtype.itemsize, offset=offset)
            return raw.clone().view(dtype).reshape(shape)
        return torch.frombuffer(self._map, dtype=dtype, count=count, offset=offset).reshape(shape)

    def release(self, offset: int, nbytes: int) -> None:
        """Let the system drop these pages; reading them again brings them back from the file."""
        if not hasattr(mmap, "MADV_DONTNEED"):
            return
        page = mmap.PAGESIZE
        first = offset // page * page
        last = min(-(-(offset + nbytes) // page) * page, self.nbytes)
        if last > first:
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)


class MappedMatrix:
    """A dense matrix that lies in a file, row after row, as a MatrixSource."""

    def __init__(self, file: MappedFile, offset: int, shape: tuple[int, int], dtype: torch.dtype) -> None:
        self.shape = shape
        self.form = dtype
        self._file = file
        self._offset = offset
        self._row_bytes = shape[1] * dtype.itemsize

    def read(self, first: int, last: int) -> torch.Tensor:
        start = self._offset + first * self._row_bytes
        return self._file.tensor(start, (last - first, self.shape[1]), self.form)

    def release(self, first: int, last: int) -> None:
        self._file.release(self._offset + first * self._row_bytes, (last - first) * self._row_bytes)


def _map_private(fileno: int) -> mmap.mmap:
    # Writable but private: torch warns about read-only buffers, and a write (there is none)
    # would reach a copy of the page, never the file.
    if _ON_LINUX:
        return mmap.mmap(
            fileno,
            0,
            flags=mmap.MAP_PRIVATE | _MAP_NORESERVE,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
        )
    return mmap.mmap(fileno, 0, access=mmap.ACCESS_COPY)
