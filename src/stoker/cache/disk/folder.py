"""The folder on disk: a sub-folder per namespace, files of ours and of others, the cap on their size.

    DIR/<first 16 digits of the fingerprint>/namespace.json    what the fingerprint stands for
    DIR/<first 16 digits of the fingerprint>/<segment>.v1.safetensors

Several processes may share it: a file appears whole by a rename, names follow from contents, and
whoever removes a file takes nothing from a reader that has it open. The cap holds for everything
that stoker wrote there, whichever model and version it belongs to.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from stoker.cache.disk.keys import Namespace
from stoker.cache.disk.segment import sync_folder

fcntl: Any
try:
    import fcntl
except ImportError:  # not POSIX
    fcntl = None

FACTS_NAME = "namespace.json"
SUFFIXES = (".safetensors", ".checkpoint")  # of files that count towards the cap
TEMPORARY = ".writing-"
_ORPHAN_AGE_S = 60.0  # a temporary file this old that nobody holds open is left over from a crash
_UNLOCKABLE_AGE_S = 3600.0  # the same where files cannot be locked


@dataclass(frozen=True, slots=True)
class CacheFile:
    path: Path
    num_bytes: int
    modified: float


def namespace_folder(root: Path, namespace: Namespace) -> Path:
    return root / namespace.fingerprint[:16]


def prepare(root: Path, namespace: Namespace) -> Path:
    """Makes the namespace's folder and says in it what it is for. Raises OSError."""
    folder = namespace_folder(root, namespace)
    folder.mkdir(parents=True, exist_ok=True)
    facts = folder / FACTS_NAME
    if not facts.exists():
        told = {"model": namespace.label, "fingerprint": namespace.fingerprint, "facts": namespace.facts}
        text = json.dumps(told, indent=2, sort_keys=True)
        with writing(folder, FACTS_NAME) as out:
            out.write(text.encode())
    return folder


@contextlib.contextmanager
def writing(folder: Path, name: str) -> Iterator[IO[bytes]]:
    """A new file that appears under `name` when the block ends well, on disk for good, and not at all
    otherwise. Raises OSError."""
    temporary = folder / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with temporary.open("wb", buffering=0) as out:
            _lock(out)
            yield out
            os.fsync(out.fileno())
            os.replace(temporary, folder / name)
        sync_folder(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def files_of(root: Path) -> list[CacheFile]:
    """Everything stoker wrote below `root`, stalest first. Files of others are not listed."""
    found: list[CacheFile] = []
    for folder in namespace_folders(root):
        for entry in _entries(folder):
            with contextlib.suppress(OSError):
                if is_ours(entry.name) and entry.is_file(follow_symlinks=False):
                    stat = entry.stat(follow_symlinks=False)
                    found.append(CacheFile(Path(entry.path), stat.st_size, stat.st_mtime))
    return sorted(found, key=lambda file: file.modified)


def namespace_folders(root: Path) -> list[Path]:
    """Sub-folders that stoker made."""
    folders = []
    for entry in _entries(root):
        with contextlib.suppress(OSError):
            if entry.is_dir(follow_symlinks=False) and len(entry.name) == 16 and _is_hex(entry.name):
                folders.append(Path(entry.path))
    return folders


def is_ours(name: str) -> bool:
    """`<keys>.v1.safetensors`, of any version."""
    head = name.partition(".")[0]
    return name.endswith(SUFFIXES) and len(head) >= 32 and _is_hex(head[:32])


def enforce_cap(root: Path, max_bytes: int) -> list[CacheFile]:
    """Removes the stalest files until the rest fits; returns what was removed."""
    files = files_of(root)
    total = sum(file.num_bytes for file in files)
    removed = []
    for file in files:
        if total <= max_bytes:
            break
        with contextlib.suppress(OSError):
            file.path.unlink(missing_ok=True)
            total -= file.num_bytes
            removed.append(file)
    return removed


def remove_orphans(root: Path) -> int:
    """Temporary files of writers that are gone."""
    removed = 0
    for folder in namespace_folders(root):
        for entry in _entries(folder):
            if entry.name.startswith(TEMPORARY):
                with contextlib.suppress(OSError):
                    age = time.time() - entry.stat().st_mtime
                    if _is_abandoned(Path(entry.path), age):
                        os.unlink(entry.path)
                        removed += 1
    return removed


def touch(path: Path, at: float) -> bool:
    """Sets the time by which files are removed. False when the file is not there."""
    try:
        os.utime(path, (at, at))
    except FileNotFoundError:
        return False
    except OSError:
        pass  # somebody else's file: readable, and that is enough
    return True


def _is_abandoned(path: Path, age_s: float) -> bool:
    if fcntl is None:
        return age_s > _UNLOCKABLE_AGE_S
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False  # somebody writes it
    # Younger ones may belong to a writer that has not locked it yet.
    return age_s > _ORPHAN_AGE_S or not _is_running(path.name)


def _is_running(name: str) -> bool:
    """Whether the process that a temporary file is named after runs (on this machine, as far as we see)."""
    pid = name.removeprefix(TEMPORARY).partition("-")[0]
    if not pid.isdecimal():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _lock(file: Any) -> None:
    if fcntl is not None:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _is_hex(text: str) -> bool:
    return all(character in "0123456789abcdef" for character in text)
