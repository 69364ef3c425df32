"""The events of several engine handles as one stream, with handles added while it runs."""

from __future__ import annotations

import asyncio

from stoker.api.engine_port import HandleLike
from stoker.core import Event


class MergedEvents:
    """`add` before or between calls of `next_batch`. Used in one event loop; `close` it at the end."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[int, list[Event] | BaseException]] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._num_open = 0

    def add(self, number: int, handle: HandleLike) -> None:
        """`number` comes with every batch of this handle."""
        self._num_open += 1
        self._tasks.add(asyncio.create_task(self._pump(number, handle)))

    async def next_batch(self) -> tuple[int, list[Event]]:
        """The number of a handle and its events. No events: every handle has ended."""
        while self._num_open:
            number, item = await self._queue.get()
            if isinstance(item, BaseException):
                raise item
            if item:
                return number, item
            self._num_open -= 1
        return 0, []

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _pump(self, number: int, handle: HandleLike) -> None:
        try:
            while events := await handle.next_batch():
                self._queue.put_nowait((number, events))
            self._queue.put_nowait((number, []))
        except Exception as error:
            self._queue.put_nowait((number, error))
