"""Graceful shutdown: refuse new requests, let running ones finish, cancel what is left at the limit.

Knows requests only as things to cancel; sockets and signals are the server's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger(__name__)

LAST_WORDS_S = 1.0  # before the server's own limit, at which it drops every connection


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Drain:
    """One per application. `begin` and `end` may be called from a signal handler or another thread."""

    def __init__(self) -> None:
        self.active: set[Cancellable] = set()  # what is under way; `enter` and `leave` keep it
        self._begun = False
        self._ended = False
        self._limit_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def begun(self) -> bool:
        return self._begun

    def attach(self, loop: asyncio.AbstractEventLoop, limit_s: float) -> None:
        """Called when the application starts, on its loop."""
        self._loop, self._limit_s = loop, limit_s

    def enter(self, work: Cancellable) -> None:
        """`work` begins. Too late, it is cancelled: it was being prepared when the time was up."""
        self.active.add(work)
        if self._ended:
            work.cancel()

    def leave(self, work: Cancellable) -> None:
        self.active.discard(work)

    def begin(self) -> None:
        """From now on new requests are answered 503. Idempotent."""
        if self._begun:
            return
        self._begun = True
        self._soon(self._start_timer)

    def end(self) -> None:
        """What still runs is cancelled, and its clients are told. Idempotent."""
        self._soon(self._expire)

    def _soon(self, step: Callable[[asyncio.AbstractEventLoop], None]) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(step, self._loop)

    def _start_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(self._limit_s - min(LAST_WORDS_S, self._limit_s / 2), self._expire, loop)

    def _expire(self, _: asyncio.AbstractEventLoop) -> None:
        if self._ended:
            return
        self._ended = True
        if self.active:
            log.warning("shutting down: %d requests cancelled", len(self.active))
        for work in list(self.active):
            work.cancel()
