"""Where forward passes run: a queue of jobs, worked on in slices of time.

The lane has no clock of its own. A host calls `work(seconds)` again and again until it returns
True: the engine between two steps of its chats, or a thread of the lane's own where there is no
engine. Within a slice, passes run on as many threads as there are cores, one pass on each, which
loses less than many threads on one product of a small model.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from stoker.embed.passes import Pass, Vectors
from stoker.errors import QueueFull, Unavailable

Work = Callable[[float], bool]
Host = Callable[[Work], None]

MAX_JOBS = 64  # that may wait; the chats' own queue is as long


class Job:
    """The passes of one request. Its future carries float32 [num_items, width], or the exception."""

    def __init__(
        self,
        passes: Sequence[Pass],
        num_items: int,
        width: int,
        progress: Callable[[int], None] = lambda num_items: None,
    ) -> None:
        self.future: Future[Vectors] = Future()
        self.future.set_running_or_notify_cancel()
        self.waiting = deque(passes)
        self._left = len(passes)
        self._progress = progress
        self.num_items = num_items
        self._rows: Vectors = np.empty((num_items, width), np.float32)
        if not passes:
            self.future.set_result(self._rows)

    def cancel(self) -> None:
        """Its time is up, or nobody waits any more; passes under way stop between two layers."""
        self.fail(Unavailable("the server is shutting down"))

    @property
    def is_over(self) -> bool:
        return self.future.done()

    def accept(self, done: Pass, rows: Vectors) -> None:
        self._rows[list(done.at)] = rows
        self._left -= 1
        self._progress(len(done.at))
        if not self._left:
            with contextlib.suppress(InvalidStateError):  # it was cancelled meanwhile
                self.future.set_result(self._rows)

    def fail(self, error: BaseException) -> None:
        with contextlib.suppress(InvalidStateError):
            self.future.set_exception(error)


@dataclass(frozen=True, slots=True)
class LaneStats:
    jobs: int  # taken on so far
    items: int  # of those
    waiting: int  # jobs with passes that have not begun


class Lane:
    """`submit` and `close` are thread-safe; `work` is the host's."""

    def __init__(self, host: Host, *, num_threads: int = 1, torch_threads: int = 1) -> None:
        """num_threads    passes that run at once
        torch_threads  of each pass's products"""
        self._host = host
        self._num_threads = num_threads
        self._pool = ThreadPoolExecutor(
            num_threads, "stoker-embed", initializer=torch.set_num_threads, initargs=(torch_threads,)
        )
        self._lock = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._current: list[tuple[Job, Pass] | None] = [None] * self._num_threads
        self._hosted = False  # the host knows that there is work
        self._closed = False
        self._num_jobs = 0
        self._num_items = 0

    def stats(self) -> LaneStats:
        with self._lock:
            return LaneStats(self._num_jobs, self._num_items, len(self._jobs))

    def submit(self, job: Job) -> None:
        """Raises QueueFull, or Unavailable when closing."""
        with self._lock:
            if self._closed:
                raise Unavailable("the server is shutting down")
            if not job.is_over and len(self._jobs) >= MAX_JOBS:
                raise QueueFull(f"{len(self._jobs)} embedding requests are already waiting; try again later")
            self._num_jobs += 1
            self._num_items += job.num_items
            if job.is_over:  # nothing to compute
                return
            self._jobs.append(job)
            if self._hosted:
                return
            self._hosted = True
        self._host(self.work)

    def close(self) -> None:
        """Unfinished jobs fail."""
        with self._lock:
            self._closed = True
            jobs, self._jobs = list(self._jobs), deque()
            jobs += [current[0] for current in self._current if current is not None]
        for job in jobs:
            job.fail(Unavailable("the server is shutting down"))
        self._pool.shutdown(wait=False)

    def work(self, seconds: float) -> bool:
        """Computes for about so long. True when nothing is left and the host may forget the lane."""
        deadline = time.monotonic() + seconds
        with contextlib.suppress(RuntimeError):  # the pool is shut down: nothing is left to do
            slices = [self._pool.submit(self._advance, slot, deadline) for slot in range(self._num_threads)]
            for part in slices:
                part.result()
        with self._lock:
            idle = self._closed or not (self._jobs or any(self._current))
            self._hosted = not idle
        return idle

    def _advance(self, slot: int, deadline: float) -> None:
        """One thread's part of a slice: steps of its pass, then of the next one. At least one step, so
        that a slice always makes progress."""
        while True:
            current = self._current[slot] = self._current[slot] or self._take()
            if current is None:
                return
            job, running = current
            try:
                if job.is_over:
                    self._current[slot] = None
                    continue
                next(running.work)
            except StopIteration as end:
                self._current[slot] = None
                with self._lock:
                    job.accept(running, end.value)
            except Exception as error:
                self._current[slot] = None
                job.fail(error)
            if time.monotonic() >= deadline:
                return

    def _take(self) -> tuple[Job, Pass] | None:
        """The next pass, jobs taking turns, so that one text does not wait for somebody's thousand."""
        with self._lock:
            while self._jobs:
                job = self._jobs.popleft()
                if job.is_over:
                    continue
                found = job.waiting.popleft()
                if job.waiting:
                    self._jobs.append(job)
                return job, found
        return None


class OwnThread:
    """The host where there is no engine: a thread that works whenever there is something to do."""

    SLICE_S = 0.05

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._work: deque[Work] = deque()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="stoker-embed-lane", daemon=True)
        self._thread.start()

    def host(self, work: Work) -> None:
        with self._changed:
            self._work.append(work)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._work or self._closing)
                if self._closing:
                    return
                work = self._work.popleft()
            if not work(self.SLICE_S):
                self.host(work)
