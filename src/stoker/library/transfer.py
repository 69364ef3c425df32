"""Fetches one remote file to one place on disk: resumed, verified, retried. Knows no hub and no cache.

    <target>.incomplete  --bytes appended, hashed on the way-->  verified  --rename-->  <target>

`target` appears only when every byte was received and its checksum is right.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

import httpx

from stoker.errors import DownloadError
from stoker.library.disk import MIN_FREE_BYTES, explain_write_error, write_all
from stoker.library.entry import human_size
from stoker.library.locks import STALE_AFTER_S, file_lock
from stoker.library.progress import Meter

_RETRY_STATUSES = {408, 425, 429, 500, 502, 503, 504}
_CHUNK_BYTES = 1 << 20
_PROGRESS_RENEWS_TRIES_BYTES = 1 << 20  # an attempt that got this far does not count against the limit


@dataclass(frozen=True, slots=True)
class TransferOptions:
    """How patient a download is."""

    attempts: int = 5  # without progress, per file
    backoff_s: float = 1.0  # doubles with each attempt
    max_backoff_s: float = 60.0  # also bounds a server's Retry-After
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 30.0  # silence on an open connection
    parallel: int = 4  # files at once
    min_free_bytes: int = MIN_FREE_BYTES
    stale_lock_s: float = STALE_AFTER_S


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """What the hub says about a file before any byte is fetched."""

    repo_id: str
    name: str  # path inside the repository
    url: str
    size_bytes: int
    algorithm: Literal["sha256", "git-sha1"]
    digest: str  # lower-case hex; also the blob's name in the cache


class Opener(Protocol):
    """Opens URLs, following redirects without leaking credentials (hub.py)."""

    def stream(self, url: str, headers: dict[str, str]) -> AbstractContextManager[httpx.Response]: ...

    def refusal(self, response: httpx.Response, repo_id: str, name: str) -> DownloadError: ...


class _Retry(Exception):
    def __init__(self, reason: str, after_s: float | None = None) -> None:
        super().__init__(reason)
        self.after_s = after_s


class _WrongBytes(Exception):
    pass


class _Overtaken(Exception):
    """Another process took the lock and went on in its own copy of the partial file."""


class Cancelled(DownloadError):
    """Another file of the same download failed, or the user stopped it."""


def partial_path(target: Path) -> Path:
    return target.with_name(target.name + ".incomplete")


def is_complete(file: RemoteFile, target: Path, meter: Meter) -> bool:
    """Targets are renamed into place only when verified, so presence and size are enough."""
    try:
        if target.stat().st_size != file.size_bytes:
            return False
    except OSError:
        return False
    meter.place(file.name, file.size_bytes)
    return True


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


@dataclass(frozen=True, slots=True)
class Transfer:
    opener: Opener
    file: RemoteFile
    target: Path
    lock: Path
    meter: Meter
    options: TransferOptions
    stop: threading.Event

    @property
    def partial(self) -> Path:
        return partial_path(self.target)

    def run(self) -> None:
        """Tries until the file is there or there is no hope."""
        self.target.parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                self._run_locked()
                return
            except _Overtaken:
                self.meter.note(f"{self.file.name}: another process took the download over")

    def _run_locked(self) -> None:
        with file_lock(
            self.lock,
            signs_of_work=(self.partial,),
            on_wait=lambda owner: self.meter.note(
                f"{self.file.name} is being downloaded by {owner}; waiting"
            ),
            stale_after_s=self.options.stale_lock_s,
            wait=self._pause,
        ) as taken_over:
            if is_complete(self.file, self.target, self.meter):
                return
            if taken_over:
                self._leave_old_partial_behind()
            self._try_until_done()

    def _try_until_done(self) -> None:
        tries, wrong = 0, 0
        while True:
            before = size_of(self.partial)
            try:
                self._attempt()
                return
            except _WrongBytes as error:
                self.partial.unlink(missing_ok=True)
                self.meter.place(self.file.name, 0)
                wrong += 1
                if wrong == 2:  # the first time, an older partial file may be to blame
                    raise DownloadError(f"{self.file.name}: {error}; nothing was kept") from error
                self.meter.note(f"{self.file.name}: {error}; starting it again")
            except _Retry as error:
                gained = size_of(self.partial) - before
                tries = 1 if gained >= _PROGRESS_RENEWS_TRIES_BYTES else tries + 1
                if tries >= self.options.attempts:
                    raise DownloadError(self._gave_up(error, tries)) from error
                self.meter.note(f"{self.file.name}: {error}; trying again")
                delay_s = self.options.backoff_s * 2 ** (tries - 1)
                self._pause(min(max(delay_s, error.after_s or 0.0), self.options.max_backoff_s))

    def _gave_up(self, error: _Retry, tries: int) -> str:
        kept = human_size(size_of(self.partial))
        return (
            f"{self.file.name}: {error} (tried {tries} times). {kept} of {human_size(self.file.size_bytes)} "
            "are kept; run the same command again to go on from there"
        )

    def _pause(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise Cancelled(f"{self.file.name}: stopped")

    def _leave_old_partial_behind(self) -> None:
        """Continue in a new file: whoever held the lock may still write to the old one."""
        if self.partial.exists():
            copy = self.partial.with_suffix(".copy")
            try:
                with self.partial.open("rb") as source, copy.open("wb") as sink:
                    while chunk := source.read(_CHUNK_BYTES):
                        sink.write(chunk)
                os.replace(copy, self.partial)
            except OSError as error:
                copy.unlink(missing_ok=True)
                raise self._write_error(error, 0) from error

    def _attempt(self) -> None:
        with self._open_partial() as out:
            hasher = self._hasher()
            start = self._rehash(out, hasher)
            if start < self.file.size_bytes:
                hasher = self._receive(out, hasher, start)
            if hasher.hexdigest() != self.file.digest:
                raise _WrongBytes(f"checksum mismatch ({self.file.algorithm})")
            self._publish(out)

    @contextmanager
    def _open_partial(self) -> Iterator[BinaryIO]:
        try:
            descriptor = os.open(self.partial, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise self._write_error(error, 0) from error
        with open(descriptor, "r+b", buffering=0) as out:
            try:
                yield out
            finally:
                self._drop_if_empty(out)

    def _drop_if_empty(self, out: BinaryIO) -> None:
        with suppress(OSError):
            status = os.fstat(out.fileno())
            if status.st_size == 0 and os.path.samestat(status, os.stat(self.partial)):
                self.partial.unlink()

    def _write_error(self, error: OSError, done_bytes: int) -> DownloadError:
        folder, file = self.target.parent, self.file
        return explain_write_error(error, folder, file.name, done_bytes, file.size_bytes)

    def _hasher(self) -> hashlib._Hash:
        if self.file.algorithm == "sha256":
            return hashlib.sha256()
        # git hashes a header before the content: https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
        return hashlib.sha1(f"blob {self.file.size_bytes}\0".encode(), usedforsecurity=False)

    def _rehash(self, out: BinaryIO, hasher: hashlib._Hash) -> int:
        """Hashes what an earlier attempt left and returns its length."""
        start = 0
        if size_of(self.partial) <= self.file.size_bytes:
            while chunk := out.read(_CHUNK_BYTES):
                hasher.update(chunk)
                start += len(chunk)
        else:
            out.truncate(0)
        self.meter.place(self.file.name, start)
        return start

    def _receive(self, out: BinaryIO, hasher: hashlib._Hash, start: int) -> hashlib._Hash:
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        try:
            with self.opener.stream(self.file.url, headers) as response:
                if start and response.status_code == 200:  # the server ignores ranges
                    out.seek(0)
                    out.truncate(0)
                    hasher, start = self._hasher(), 0
                    self.meter.place(self.file.name, 0)
                self._check(response, start)
                received = self._copy(response, out, hasher, start)
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise _Retry(f"the connection was lost ({_describe(error)})") from error
        if received < self.file.size_bytes:
            raise _Retry(
                f"the server ended the file at {human_size(received)} of {human_size(self.file.size_bytes)}"
            )
        return hasher

    def _check(self, response: httpx.Response, start: int) -> None:
        status = response.status_code
        if status in _RETRY_STATUSES:
            raise _Retry(f"the server answered {status}", _retry_after_s(response))
        if status == 416:
            raise _WrongBytes("the server refused to go on from the partial file")
        if status not in (200, 206):
            raise self.opener.refusal(response, self.file.repo_id, self.file.name)
        if status == 206:
            unit, _, span = response.headers.get("content-range", "").partition(" ")
            if unit != "bytes" or span.partition("-")[0] != str(start):
                raise _WrongBytes("the server sent another range than asked for")

    def _copy(self, response: httpx.Response, out: BinaryIO, hasher: hashlib._Hash, received: int) -> int:
        # Chunks as they come: gathering them would lose the last ones when the connection drops.
        for chunk in response.iter_raw():
            if self.stop.is_set():
                raise Cancelled(f"{self.file.name}: stopped")
            received += len(chunk)
            if received > self.file.size_bytes:
                raise _WrongBytes(f"the server sent more than the announced {self.file.size_bytes} bytes")
            try:
                write_all(out, chunk)
            except OSError as error:
                done = received - len(chunk)
                raise self._write_error(error, done) from error
            hasher.update(chunk)
            self.meter.add(self.file.name, len(chunk))
        return received

    def _publish(self, out: BinaryIO) -> None:
        try:
            os.fsync(out.fileno())
            if not os.path.samestat(os.fstat(out.fileno()), os.stat(self.partial)):
                raise FileNotFoundError
            os.replace(self.partial, self.target)
        except FileNotFoundError:
            raise _Overtaken from None
        except OSError as error:
            raise self._write_error(error, self.file.size_bytes) from error


def _retry_after_s(response: httpx.Response) -> float | None:
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__
