"""Restores: a thread that looks histories up in the folder and reads them into blocks.

A restore goes through it twice: first to learn how much there is, then, with blocks that the engine
thread has set aside, to read. Nothing here touches the block pool.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

Work = Callable[[], None]


class Reader:
    """Runs pieces of work one after the other. With `threaded` False, at once in the caller's thread."""

    def __init__(self, *, threaded: bool) -> None:
        self._threaded = threaded
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="stoker-disk-reader", daemon=True)

    def start(self) -> None:
        if self._threaded:
            self._thread.start()

    def do(self, work: Work) -> None:
        if self._threaded:
            self._queue.put(work)
        else:
            work()

    def stop(self) -> None:
        self._queue.put(None)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            except Exception:  # the restore's own code reports what it expects
                log.exception("disk cache: a restore failed")
