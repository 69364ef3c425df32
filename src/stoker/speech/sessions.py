"""The open streaming sessions: their ids, how many there may be, and when a forgotten one ends."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import NoReturn

from stoker.errors import NotFound, QueueFull, StokerError
from stoker.speech.orders import Order
from stoker.speech.service import SpeechService
from stoker.speech.session import Session

log = logging.getLogger(__name__)

MAX_OPEN = 64
IDLE_S = 15 * 60  # without a chunk: a microphone that was left behind must not pin the weights
SWEEP_S = 30.0
_REMEMBERED = 1024  # ids of closed sessions


class SessionClosed(StokerError):
    """Finished, discarded or expired."""

    status = 409
    type = "invalid_request_error"


class Sessions:
    """Thread-safe."""

    def __init__(self, service: SpeechService, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, Session] = {}
        self._last_used: dict[str, float] = {}
        self._num_opening = 0
        self._closed: OrderedDict[str, None] = OrderedDict()
        self._sweeper: threading.Timer | None = None

    def __len__(self) -> int:
        return len(self._open)

    def open(self, order: Order, format: str = "json") -> tuple[str, Session]:
        """Brings the weights in, which may take a moment. Raises QueueFull and what Session does."""
        with self._lock:
            if len(self._open) + self._num_opening >= MAX_OPEN:
                raise QueueFull("too many open transcription sessions")
            self._num_opening += 1
        try:
            session = Session(self._service, order, format)
        except BaseException:
            with self._lock:
                self._num_opening -= 1
            raise
        id = str(uuid.uuid4())
        with self._lock:  # in one go, so that it is never counted as neither
            self._num_opening -= 1
            self._open[id] = session
            self._last_used[id] = self._clock()
            self._plan_sweep()
        return id, session

    def find(self, id: str) -> Session:
        """And notes that it is in use. Raises NotFound or SessionClosed."""
        with self._lock:
            if id not in self._open:
                self._raise_for(id)
            self._last_used[id] = self._clock()
            return self._open[id]

    def take_out(self, id: str) -> Session:
        """The session, which no other request finds any more; the caller closes it."""
        with self._lock:
            if id not in self._open:
                self._raise_for(id)
            return self._forget(id)

    def sweep(self) -> None:
        """Ends the sessions that have been idle for too long."""
        now = self._clock()
        with self._lock:
            idle = [id for id, used in self._last_used.items() if now - used >= IDLE_S]
            expired = [self._forget(id) for id in idle]
            self._sweeper = None
            self._plan_sweep()
        for session in expired:
            log.info("a transcription session without audio for %d minutes has ended", IDLE_S // 60)
            session.close()

    def close(self) -> None:
        """Discards all of them."""
        with self._lock:
            sessions = [self._forget(id) for id in list(self._open)]
            if self._sweeper is not None:
                self._sweeper.cancel()
        for session in sessions:
            session.close()

    def _raise_for(self, id: str) -> NoReturn:
        if id in self._closed:
            raise SessionClosed("session is closed")
        raise NotFound("unknown transcription session")

    def _forget(self, id: str) -> Session:
        session = self._open.pop(id)
        del self._last_used[id]
        self._closed[id] = None
        while len(self._closed) > _REMEMBERED:
            self._closed.popitem(last=False)
        return session

    def _plan_sweep(self) -> None:
        if self._open and self._sweeper is None:
            self._sweeper = threading.Timer(SWEEP_S, self.sweep)
            self._sweeper.daemon = True
            self._sweeper.start()
