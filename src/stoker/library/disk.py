"""Free space: asked for before a download begins, and reported with numbers when it runs out."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import BinaryIO

from stoker.errors import DownloadError
from stoker.library.entry import human_size

MIN_FREE_BYTES = 1 << 30  # left over after a download, so that the machine stays usable

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class DiskFull(DownloadError):
    """No room; trying another source would not help."""


def require_space(folder: Path, needed_bytes: int, min_free_bytes: int = MIN_FREE_BYTES) -> None:
    """Raises DiskFull unless `needed_bytes` fit below `folder` with `min_free_bytes` to spare."""
    free = free_bytes(folder)
    if needed_bytes + min_free_bytes > free:
        raise DiskFull(
            f"not enough disk space in {folder}: {human_size(needed_bytes)} to download plus "
            f"{human_size(min_free_bytes)} to keep free, but only {human_size(free)} are free"
        )


def free_bytes(folder: Path) -> int:
    """Free bytes of the file system that will hold `folder`, which need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def explain_write_error(
    error: OSError, folder: Path, name: str, done_bytes: int, total_bytes: int
) -> DownloadError:
    """What to tell the user about a failed write; the partial file is kept."""
    amounts = f"{human_size(done_bytes)} of {human_size(total_bytes)} of {name} were written"
    if error.errno in _FULL:
        free = human_size(free_bytes(folder))
        return DiskFull(
            f"the disk is full: {amounts} to {folder} ({free} free). Make room and run the same "
            "command again; it goes on where it stopped"
        )
    return DownloadError(f"cannot write to {folder}: {error.strerror or error} ({amounts})")


def write_all(out: BinaryIO, chunk: bytes) -> None:
    """Unbuffered, so that a full disk shows here and not when the file is closed."""
    view = memoryview(chunk)
    while view:
        view = view[out.write(view) :]
