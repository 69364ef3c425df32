"""A caller's end of one request: a thread-safe stream of events from the engine thread.

Works from asyncio (`next_batch`) and from a plain thread (`batches_blocking`). It never blocks the
engine: events are buffered here until they are read. A token costs the engine thread a lock and,
where somebody waits for it, one call that wakes the reader.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from stoker.core import ErrorEvent, Event, FinishEvent, TokenEvent


class GenerationHandle:
    """Events of one request, in order. One reader at a time."""

    def __init__(
        self,
        request_id: str,
        num_choices: int,
        *,
        request_stop: Callable[[GenerationHandle, int], None],
        request_cancel: Callable[[GenerationHandle], None],
    ) -> None:
        self.id = request_id
        self.prompt_reported = False  # the engine has sent the PromptEvent
        self._open = set(range(num_choices))  # choices the reader still expects events of
        self._request_stop = request_stop
        self._request_cancel = request_cancel
        self._lock = threading.Lock()
        self._buffer: list[Event] = []
        self._wake: Callable[[], object] | None = None  # set while a reader waits

    def cancel(self) -> None:
        """Frees every row within one step. A reader then gets the FinishEvents ("cancelled")."""
        self._request_cancel(self)

    def stop(self, index: int) -> None:
        """The reader has seen enough of choice `index` (a stop string): its row is freed and no
        further event of it is delivered, not even a FinishEvent."""
        self._open.discard(index)
        self._request_stop(self, index)

    async def next_batch(self) -> list[Event]:
        """All events that are ready, at least one. Empty when every choice has finished or been stopped,
        and after an ErrorEvent."""
        while self._open:
            if not self._buffer:
                loop = asyncio.get_running_loop()
                waiter: asyncio.Future[None] = loop.create_future()
                if self._waits(partial(loop.call_soon_threadsafe, _resolve, waiter)):
                    try:
                        await waiter
                    finally:
                        self._wake = None
            if visible := self._take():
                return visible
        return []

    def batches_blocking(self) -> Iterator[list[Event]]:
        """The same from a plain thread, until the end."""
        while self._open:
            news = threading.Event()
            if self._waits(news.set):
                news.wait()
            if visible := self._take():
                yield visible

    def deliver(self, events: Sequence[Event]) -> None:
        """Called by the engine thread."""
        with self._lock:
            self._buffer += events
            wake, self._wake = self._wake, None
        if wake is not None:
            try:  # noqa: SIM105 - contextlib.suppress would cost as much as the rest
                wake()
            except RuntimeError:  # the reader's loop has closed; nobody waits any more
                pass

    def _waits(self, wake: Callable[[], object]) -> bool:
        """Leaves `wake` to be called when something comes. False when something has come already."""
        with self._lock:
            if self._buffer:
                return False
            self._wake = wake
            return True

    def _take(self) -> list[Event]:
        """What is buffered, without the events of choices that were stopped."""
        with self._lock:
            events, self._buffer = self._buffer, []
        visible: list[Event] = []
        for event in events:
            if isinstance(event, TokenEvent):
                if event.index in self._open:
                    visible.append(event)
            elif isinstance(event, FinishEvent):
                if event.index in self._open:
                    self._open.discard(event.index)
                    visible.append(event)
            else:
                visible.append(event)
                if isinstance(event, ErrorEvent):
                    self._open.clear()
                    break
        return visible


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():  # the reader was cancelled meanwhile
        waiter.set_result(None)
