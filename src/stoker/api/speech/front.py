"""What the speech routes work with: the service, threads to wait in, and the sessions.

A server without a chat model has this and no engine, so nothing here knows one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO, Protocol, TypeVar, cast

from stoker.api.drain import Drain
from stoker.errors import RequestCancelled
from stoker.speech.audio import Source, read_audio
from stoker.speech.service import MAX_WAITING, SpeechService
from stoker.speech.sessions import MAX_OPEN, Sessions
from stoker.speech.wav import Samples

T = TypeVar("T")

MAX_DECODING = 2  # uploads decoded at the same time


@dataclass(frozen=True, slots=True)
class SpeechFront:
    service: SpeechService
    sessions: Sessions
    drain: Drain
    # Every take that waits for its turn has a thread: they block, and cost a stack each.
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(
            MAX_WAITING + 2 * MAX_OPEN + MAX_DECODING, thread_name_prefix="stoker-speech"
        )
    )
    decoding: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_DECODING))

    @classmethod
    def of(cls, service: SpeechService, drain: Drain) -> SpeechFront:
        return cls(service, Sessions(service), drain)

    async def decode(self, job: Job, audio: IO[bytes]) -> Samples:
        """The whole upload, which is closed. Raises AudioError."""
        started = False

        def work() -> Samples:
            nonlocal started
            started = True
            with audio:
                return read_audio(cast(Source, audio), job.check)

        try:
            async with self.decoding:
                return await job.run(work)
        finally:
            if not started:  # else the thread may still be reading
                audio.close()

    def close(self) -> None:
        """What still runs is asked to stop, and open sessions are discarded. For the end of the server."""
        for running in list(self.drain.active):
            if isinstance(running, Job):
                running.cancel()
        self.sessions.close()


class HasSpeech(Protocol):
    """The part of a server's state that the routes see."""

    @property
    def speech(self) -> SpeechFront | None: ...


class Job:
    """Blocking work for one request. Cancelling the coroutine that awaits `run`, or `cancel`, asks the work
    to stop; it looks through `stopped` between its steps."""

    def __init__(self, front: SpeechFront) -> None:
        self._front = front
        self._stop = threading.Event()

    def __enter__(self) -> Job:
        self._front.drain.enter(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._front.drain.leave(self)

    def stopped(self) -> bool:
        return self._stop.is_set()

    def check(self) -> None:
        if self._stop.is_set():
            raise RequestCancelled("request cancelled")

    def cancel(self) -> None:
        self._stop.set()
        self._front.service.lane.wake()

    async def run(self, work: Callable[[], T]) -> T:
        running: Awaitable[T] = asyncio.get_running_loop().run_in_executor(self._front.threads, work)
        try:
            return await running
        except asyncio.CancelledError:
            self.cancel()
            raise
