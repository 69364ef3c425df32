"""Write-behind: a thread that takes snapshots of histories to disk while the engine goes on.

A snapshot holds references on its blocks until it is written, so that nobody can change them. The
engine thread hands it over and is told when it is done; between two pieces of work the writer
sleeps as long as it takes to stay out of the way of running rows, unless somebody waits for it.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from stoker.cache.disk.checkpoint import Checkpoint

log = logging.getLogger(__name__)

BUSY_SHARE = 0.03  # of one core, while rows are running
_LONGEST_PAUSE_S = 0.4
RETRY_AFTER_S = 60.0  # a full disk is tried again

Outcome = Literal["written", "known", "failed"]
_numbers = count(1)


@dataclass(slots=True, eq=False)
class Snapshot:
    """A history that should be on disk: its first len(tokens) tokens are in these blocks."""

    tokens: tuple[int, ...]
    blocks: list[int]
    checkpoint: Checkpoint | None = None  # of the generation that is at its end
    finished: str | None = None  # instead of a history: the identity of a checkpoint to remove
    number: int = field(default_factory=lambda: next(_numbers))

    def supersedes(self, other: Snapshot) -> bool:
        """All that `other` would bring to disk comes with this one."""
        if other.finished or self.finished:
            return False
        if self.checkpoint is not None and other.checkpoint is None:
            return False  # checkpoints may be dropped from the queue, histories may not
        if other.checkpoint is not None and (
            self.checkpoint is None or self.checkpoint.identity != other.checkpoint.identity
        ):
            return False
        return self.tokens[: len(other.tokens)] == other.tokens


Write = Callable[[Snapshot, Callable[[], None]], int]  # files written; raises OSError


class Writer:
    """`add` and the rest are called from any thread; `on_done` is called on the writer's."""

    def __init__(
        self,
        write: Write,
        *,
        on_done: Callable[[Snapshot, Outcome], None],
        busy: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.suspended_until = 0.0  # after a failure, on the clock
        self._write = write
        self._on_done = on_done
        self._busy = busy
        self._clock = clock
        self._changed = threading.Condition()
        self._queue: OrderedDict[int, Snapshot] = OrderedDict()  # oldest first
        self._current: Snapshot | None = None
        self._num_waiting = 0  # see in_haste
        self._stopping = False
        self._worked_at = clock()
        self._thread = threading.Thread(target=self._run, name="stoker-disk-writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def suspended(self) -> bool:
        return self._clock() < self.suspended_until

    def add(self, snapshot: Snapshot) -> list[Snapshot]:
        """Queues a snapshot. Returns those it makes superfluous, which have left the queue."""
        with self._changed:
            gone = [other for other in self._queue.values() if snapshot.supersedes(other)]
            for other in gone:
                del self._queue[other.number]
            self._queue[snapshot.number] = snapshot
            self._changed.notify_all()
        return gone

    def take_back(self) -> Snapshot | None:
        """The oldest snapshot that is still untouched, out of the queue."""
        with self._changed:
            return self._queue.popitem(last=False)[1] if self._queue else None

    def drop_checkpoints(self, max_blocks: int) -> list[Snapshot]:
        """Takes the oldest generation checkpoints out of the queue until those left hold no more than so many
        blocks; the newest always stays."""
        with self._changed:
            queued = [snapshot for snapshot in self._queue.values() if snapshot.checkpoint]
            held = sum(len(snapshot.blocks) for snapshot in queued)
            dropped = []
            for snapshot in queued[:-1]:
                if held <= max_blocks:
                    break
                held -= len(snapshot.blocks)
                dropped.append(self._queue.pop(snapshot.number))
        return dropped

    def pending(self) -> list[Snapshot]:
        """Histories queued, and in the writer's hands."""
        with self._changed:
            return [snapshot for snapshot in self._held() if not snapshot.finished]

    @contextmanager
    def in_haste(self) -> Iterator[None]:
        """Meanwhile the writer makes no pauses, and tries even a disk that was full a moment ago."""
        with self._changed:
            self._num_waiting += 1
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._num_waiting -= 1

    def wait(self, timeout_s: float) -> bool:
        """Until everything queued by now is done. False when time ran out."""
        with self._changed:
            numbers = {snapshot.number for snapshot in self._held()}
            return self._changed.wait_for(
                lambda: not any(snapshot.number in numbers for snapshot in self._held()), timeout_s
            )

    def wait_for_one(self, timeout_s: float) -> bool:
        """Until the snapshot under way, or the next one, is done. False when there is none in time."""
        with self._changed:
            held = self._held()
            return bool(held) and self._changed.wait_for(lambda: held[0] not in self._held(), timeout_s)

    def stop(self) -> None:
        """Ends the thread after the file under way; what is queued stays unwritten."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def _held(self) -> list[Snapshot]:
        return ([self._current] if self._current else []) + list(self._queue.values())

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._stopping)
                if self._stopping:
                    return
                _, snapshot = self._queue.popitem(last=False)
                self._current = snapshot
            outcome = self._try(snapshot)
            self._on_done(snapshot, outcome)
            with self._changed:
                self._current = None
                self._changed.notify_all()

    def _try(self, snapshot: Snapshot) -> Outcome:
        if self.suspended and not self._num_waiting:
            return "failed"
        self._worked_at = self._clock()
        try:
            written = self._write(snapshot, self._pause)
        except OSError as error:
            if self._stopping:
                return "failed"
            if not self.suspended_until:
                log.warning(
                    "disk cache: %s; prefixes stay in memory only, writing is tried again in %d s",
                    "the disk is full"
                    if error.errno in (errno.ENOSPC, errno.EDQUOT)
                    else f"cannot write: {error}",
                    RETRY_AFTER_S,
                )
            self.suspended_until = self._clock() + RETRY_AFTER_S
            return "failed"
        except Exception:
            log.exception("disk cache: a snapshot could not be written")
            return "failed"
        if written and self.suspended_until:
            self.suspended_until = 0.0
            log.info("disk cache: writing again")
        return "written" if written else "known"

    def _pause(self) -> None:
        """Between two pieces: sleeps so that the work takes no more than its share of time."""
        if self._stopping:
            raise OSError(errno.ECANCELED, "the server is stopping")
        worked = self._clock() - self._worked_at
        if self._busy() and not self._num_waiting:
            with self._changed:
                self._changed.wait_for(
                    lambda: bool(self._num_waiting or self._stopping),
                    min(worked * (1 / BUSY_SHARE - 1), _LONGEST_PAUSE_S),
                )
        self._worked_at = self._clock()
