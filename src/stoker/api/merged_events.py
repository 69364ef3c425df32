"""The events of several engine handles as one stream, with handles added while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from stoker.api.engine_port import HandleLike
from stoker.core import Event


class MergedEvents:
    """`add` before or between steps of `batches`, which ends when every handle has ended. Used in one
    event loop."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[int, list[Event] | BaseException | None]] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._num_open = 0

    def add(self, number: int, handle: HandleLike) -> None:
        """`number` comes with every batch of this handle."""
        self._num_open += 1
        self._tasks.add(asyncio.create_task(self._pump(number, handle)))

    async def batches(self) -> AsyncGenerator[tuple[int, list[Event]], None]:
        try:
            while self._num_open:
                number, item = await self._queue.get()
                if item is None:
                    self._num_open -= 1
                elif isinstance(item, BaseException):
                    raise item
                else:
                    yield number, item
        finally:
            for task in self._tasks:
                task.cancel()

    async def _pump(self, number: int, handle: HandleLike) -> None:
        try:
            async for events in handle.batches():
                self._queue.put_nowait((number, events))
            self._queue.put_nowait((number, None))
        except Exception as error:
            self._queue.put_nowait((number, error))
