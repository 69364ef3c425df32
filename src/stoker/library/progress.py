"""How a download tells its progress: one plain value per update. Drawing is the caller's.

`Meter` is filled by several download threads at once and calls the sink at most ten times a second.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

_UPDATE_INTERVAL_S = 0.1
_RATE_WINDOW_S = 5.0


@dataclass(frozen=True, slots=True)
class FileProgress:
    name: str
    received_bytes: int  # including what an earlier attempt left
    total_bytes: int


@dataclass(frozen=True, slots=True)
class DownloadState:
    """A download at one moment."""

    title: str  # repository or catalog id
    stage: str  # "downloading", "unpacking"
    files: tuple[FileProgress, ...]
    bytes_per_sec: float  # over the last 5 s, resumed bytes not counted

    @property
    def received_bytes(self) -> int:
        return sum(file.received_bytes for file in self.files)

    @property
    def total_bytes(self) -> int:
        return sum(file.total_bytes for file in self.files)

    @property
    def files_done(self) -> int:
        return sum(file.received_bytes >= file.total_bytes for file in self.files)

    @property
    def current_file(self) -> str | None:
        """The first file under way, else the first not begun."""
        waiting = [file for file in self.files if file.received_bytes < file.total_bytes]
        begun = [file for file in waiting if file.received_bytes]
        return (begun or waiting)[0].name if waiting else None


class Progress(Protocol):
    """Receives updates, from any thread, one at a time. Must return quickly and not raise."""

    def update(self, state: DownloadState) -> None: ...

    def note(self, message: str) -> None:
        """One line for the person waiting: a source skipped, a lock waited for, a retry."""
        ...


class Quiet:
    """A Progress that says nothing."""

    def update(self, state: DownloadState) -> None:
        pass

    def note(self, message: str) -> None:
        pass


class Meter:
    """Counts the bytes of one download and reports to a Progress."""

    def __init__(
        self,
        title: str,
        totals: Mapping[str, int],
        sink: Progress,
        stage: str = "downloading",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = title
        self._stage = stage
        self._totals = dict(totals)
        self._received = dict.fromkeys(totals, 0)
        self._sink = sink
        self._clock = clock
        self._lock = threading.Lock()
        self._samples: deque[tuple[float, int]] = deque()  # (time, newly received bytes)
        self._last_update_s = float("-inf")
        self.flush()

    def add(self, name: str, num_bytes: int) -> None:
        """`num_bytes` more of `name` arrived from the network."""
        now = self._clock()
        with self._lock:
            self._received[name] += num_bytes
            self._samples.append((now, num_bytes))
            self._report(now)

    def place(self, name: str, received_bytes: int) -> None:
        """`name` stands at `received_bytes` (resumed, restarted or already there): no rate."""
        with self._lock:
            self._received[name] = received_bytes
            self._report(self._clock())

    def note(self, message: str) -> None:
        with self._lock:
            self._sink.note(message)

    def flush(self) -> None:
        """Report now, whatever the interval."""
        with self._lock:
            self._last_update_s = float("-inf")
            self._report(self._clock())

    def _report(self, now: float) -> None:
        if now - self._last_update_s < _UPDATE_INTERVAL_S:
            return
        self._last_update_s = now
        while self._samples and self._samples[0][0] < now - _RATE_WINDOW_S:
            self._samples.popleft()
        span_s = max(now - self._samples[0][0], _UPDATE_INTERVAL_S) if self._samples else 1.0
        rate = sum(count for _, count in self._samples) / span_s
        files = tuple(FileProgress(name, self._received[name], total) for name, total in self._totals.items())
        self._sink.update(DownloadState(self._title, self._stage, files, rate))
