"""A caller's end of one request: a thread-safe stream of events from the engine thread.

Works from asyncio (`batches`) and from a plain thread (`batches_blocking`). It never blocks the
engine: events are buffered here until they are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
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
        self._condition = threading.Condition()
        self._buffer: list[Event] = []
        self._wake: Callable[[], None] | None = None  # set while an asyncio reader waits

    def cancel(self) -> None:
        """Frees every row within one step. A reader then gets the FinishEvents ("cancelled")."""
        self._request_cancel(self)

    def stop(self, index: int) -> None:
        """The reader has seen enough of choice `index` (a stop string): its row is freed and no
        further event of it is delivered, not even a FinishEvent."""
        self._open.discard(index)
        self._request_stop(self, index)

    async def batches(self) -> AsyncIterator[list[Event]]:
        """Lists of events, each all that were ready. Ends when every choice has finished or been
        stopped, or after an ErrorEvent."""
        loop = asyncio.get_running_loop()
        while self._open:
            waiter: asyncio.Future[None] = loop.create_future()
            events = self._take_or(partial(_resolve_soon, loop, waiter))
            if events is None:
                try:
                    await waiter
                finally:
                    self._wake = None
                continue
            if visible := self._visible(events):
                yield visible

    def batches_blocking(self) -> Iterator[list[Event]]:
        """The same from a plain thread."""
        while self._open:
            with self._condition:
                self._condition.wait_for(lambda: bool(self._buffer))
                events, self._buffer = self._buffer, []
            if visible := self._visible(events):
                yield visible

    def deliver(self, events: Sequence[Event]) -> None:
        """Called by the engine thread."""
        with self._condition:
            self._buffer.extend(events)
            wake, self._wake = self._wake, None
            self._condition.notify()
        if wake is not None:
            wake()

    def _take_or(self, wake: Callable[[], None]) -> list[Event] | None:
        """What is buffered, or None after leaving `wake` to be called when something comes."""
        with self._condition:
            if not self._buffer:
                self._wake = wake
                return None
            events, self._buffer = self._buffer, []
            return events

    def _visible(self, events: list[Event]) -> list[Event]:
        visible: list[Event] = []
        for event in events:
            if isinstance(event, TokenEvent | FinishEvent):
                if event.index not in self._open:
                    continue
                if isinstance(event, FinishEvent):
                    self._open.discard(event.index)
            elif isinstance(event, ErrorEvent):
                self._open.clear()
            visible.append(event)
            if isinstance(event, ErrorEvent):
                break
        return visible


def _resolve_soon(loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None]) -> None:
    def resolve() -> None:
        if not waiter.done():
            waiter.set_result(None)

    with contextlib.suppress(RuntimeError):  # the reader's loop has closed; nobody waits any more
        loop.call_soon_threadsafe(resolve)
