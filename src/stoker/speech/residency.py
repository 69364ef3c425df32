"""How long the weights stay in memory: for a take, for a while after it, or for good."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from stoker.speech.ports import Checkpoint, Whisper

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResidencyStats:
    resident: bool  # the weights are in memory now
    loads: int
    unloads: int
    last_load_ms: float
    idle_unload_s: float | None  # None = never


@dataclass(frozen=True, slots=True)
class Lease:
    model: Whisper
    load_ms: float  # above 0 exactly when this lease brought the weights in


class Residency:
    """Counts who uses the weights. Thread-safe; concurrent first users share one load."""

    def __init__(
        self,
        find: Callable[[], Checkpoint],
        *,
        idle_unload_s: float | None = 0.0,
        on_unload: Callable[[], None] = lambda: None,
    ) -> None:
        self._find = find  # raises SpeechUnavailable
        self._idle_unload_s = idle_unload_s  # 0 = at once, None = never
        self._on_unload = on_unload
        self._lock = threading.Lock()  # held while loading: the others wait for that load
        self._model: Whisper | None = None
        self._num_users = 0
        self._timer: threading.Timer | None = None
        self._loads = self._unloads = 0
        self._last_load_ms = 0.0

    @property
    def stats(self) -> ResidencyStats:
        return ResidencyStats(
            self._model is not None, self._loads, self._unloads, self._last_load_ms, self._idle_unload_s
        )

    @contextmanager
    def use(self) -> Iterator[Lease]:
        lease = self.acquire()
        try:
            yield lease
        finally:
            self.release()

    def acquire(self) -> Lease:
        """To be followed by one `release`, unless it raises."""
        with self._lock:
            self._stop_timer()
            load_ms = 0.0
            if self._model is None:
                started = time.perf_counter()
                checkpoint = self._find()
                self._model = checkpoint.load()
                load_ms = self._last_load_ms = (time.perf_counter() - started) * 1000
                self._loads += 1
                log.info("loaded %s in %.0f ms", checkpoint.id, load_ms)
            self._num_users += 1
            return Lease(self._model, load_ms)

    def preload(self) -> None:
        """Loads now. The weights stay until the first take ends, then as long as the settings say."""
        self.acquire()
        with self._lock:
            self._num_users -= 1

    def release(self) -> None:
        with self._lock:
            self._num_users -= 1
            if self._num_users or self._idle_unload_s is None:
                return
            if self._idle_unload_s == 0:
                self._unload()
                return
            self._stop_timer()
            self._timer = threading.Timer(self._idle_unload_s, self.unload)
            self._timer.daemon = True
            self._timer.start()

    def unload(self) -> bool:
        """Now, unless somebody uses them. False when nothing changed."""
        with self._lock:
            if self._num_users or self._model is None:
                return False
            self._stop_timer()
            self._unload()
            return True

    def _unload(self) -> None:
        self._model = None
        self._unloads += 1
        self._on_unload()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def return_memory() -> None:
    """Gives what the weights took back to the system, so that the chat model finds it free."""
    import ctypes
    import gc
    import sys

    gc.collect()
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
