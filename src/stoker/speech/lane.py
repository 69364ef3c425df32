"""Who may compute: one take at a time, first come, and beside generation in slices between its steps.

A take runs on a thread of its own. While it holds the lane it borrows the device from the engine, whose
thread waits meanwhile, and gives it back at each `yield_device`, where it has used up its slice: running
chats then make a step. Nothing here knows what a take computes.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol

from stoker.errors import RequestCancelled, Unavailable

SLICE_S = 0.03  # of work between two steps of the chats; a window's encoder cannot be cut and takes longer


class Device(Protocol):
    """The engine's side of it; None in its place means that nobody else uses the device."""

    def run_between(self, work: Callable[[], Any]) -> Future[Any]: ...


class Lane:
    def __init__(self, device: Device | None = None, *, slice_s: float = SLICE_S) -> None:
        self._device = device
        self._slice_s = slice_s
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()  # the first one holds the lane
        self._loan: _Loan | None = None

    @property
    def num_waiting(self) -> int:
        """Takes that hold the lane or wait for it."""
        return len(self._waiting)

    @contextmanager
    def hold(self, should_stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Blocks until it is this thread's turn. `should_stop` is asked after each `wake`; when it says yes
        before the turn comes, raises RequestCancelled."""
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting[0] is ticket or should_stop())
            if should_stop():
                raise RequestCancelled("request cancelled")
            self._borrow()
            try:
                yield
            finally:
                self._give_back()
        finally:
            with self._changed:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def yield_device(self) -> None:
        """By the holder: lets the engine make a step when this slice is used up."""
        if self._loan is not None and time.monotonic() - self._loan.since >= self._slice_s:
            self._give_back()
            self._borrow()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """By the holder: work that leaves the device to the others, like bringing weights in."""
        self._give_back()
        try:
            yield
        finally:
            self._borrow()

    def wake(self) -> None:
        """Something that a `should_stop` looks at has changed."""
        with self._changed:
            self._changed.notify_all()

    def _borrow(self) -> None:
        if self._device is not None:
            self._loan = _Loan(self._device)

    def _give_back(self) -> None:
        loan, self._loan = self._loan, None
        if loan is not None:
            loan.end()


class _Loan:
    """The device, from the end of the constructor to `end`."""

    def __init__(self, device: Device) -> None:
        self._granted, self._over = threading.Event(), threading.Event()
        future = device.run_between(self._lend)
        future.add_done_callback(lambda _: self._granted.set())  # also when the engine ends instead
        self._granted.wait()
        if future.cancelled():
            raise Unavailable("the server is shutting down")
        self.since = time.monotonic()

    def end(self) -> None:
        self._over.set()

    def _lend(self) -> None:
        """On the engine's thread."""
        self._granted.set()
        self._over.wait()
