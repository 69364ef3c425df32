"""One writer per file: an advisory lock that dies with its owner.

The kernel drops the lock when the owner ends, however it ends. A live owner that has shown no sign of
work for an hour is taken to be stuck and its lock is taken over; transfer.py then works on a copy of
the partial file, so that the old owner can wake up without harm. POSIX only (flock).
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stoker.errors import DownloadError

STALE_AFTER_S = 3600.0
_POLL_S = 0.2


@contextmanager
def file_lock(
    path: Path,
    *,
    signs_of_work: Iterable[Path] = (),
    on_wait: Callable[[str], None] = lambda _owner: None,
    stale_after_s: float = STALE_AFTER_S,
    wait: Callable[[float], None] = time.sleep,
) -> Iterator[bool]:
    """Holds the lock file `path`, waiting for it as long as needed. Yields True when it was taken over.

    signs_of_work  files whose modification time shows that the owner is alive
    on_wait        called once, with the owner's description, when the lock is busy
    wait           sleeps between tries; may raise to give up
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    taken_over = False
    told = False
    while (handle := _try_lock(path)) is None:
        if not told:
            told = True
            on_wait(_owner(path))
        if _age_s((path, *signs_of_work)) > stale_after_s:
            taken_over = True
            path.unlink(missing_ok=True)
            continue
        wait(_POLL_S)
    try:
        yield taken_over
    finally:
        os.close(handle)


def is_locked(path: Path) -> bool:
    """Whether somebody holds the lock file `path` now."""
    if not path.exists():
        return False
    handle = _try_lock(path)
    if handle is None:
        return True
    os.close(handle)
    return False


def _try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock, or None when another holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o664)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is_at(handle, path):  # unlinked or replaced between opening and locking
            os.close(handle)
            return None
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()}".encode(), 0)
    except OSError as error:
        os.close(handle)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        if error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
            raise DownloadError(f"{path.parent} is on a file system without file locks") from error
        if error.errno != errno.ENOSPC:  # a full disk only loses the description
            raise
        return _try_lock_silently(path)
    return handle


def _try_lock_silently(path: Path) -> int | None:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o664)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


def _owner(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip() or "another process"
    return "another process"


def _age_s(paths: Iterable[Path]) -> float:
    newest = 0.0
    for path in paths:
        with suppress(OSError):
            newest = max(newest, path.stat().st_mtime)
    return time.time() - newest if newest else 0.0
