"""Graceful shutdown: refuse new requests, let running ones finish, cancel what is left at the limit.

Knows generations only as things to cancel; sockets and signals are the server's.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

log = logging.getLogger(__name__)


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Drain:
    """One per application. `begin` may be called from a signal handler or another thread."""

    def __init__(self) -> None:
        self.active: set[Cancellable] = set()  # generations under way
        self._begun = False
        self._limit_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def begun(self) -> bool:
        return self._begun

    def attach(self, loop: asyncio.AbstractEventLoop, limit_s: float) -> None:
        """Called when the application starts, on its loop."""
        self._loop, self._limit_s = loop, limit_s

    def begin(self) -> None:
        """From now on new requests are answered 503. Idempotent."""
        if self._begun:
            return
        self._begun = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._start_timer, self._loop)

    def _start_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        # A little before the server's own limit, so that clients still get a proper last frame.
        loop.call_later(max(0.0, self._limit_s - 0.5), self._expire)

    def _expire(self) -> None:
        if self.active:
            log.warning("shutdown limit reached: %d requests cancelled", len(self.active))
        for generation in list(self.active):
            generation.cancel()
