"""Finished responses, kept for `previous_response_id` and GET: bounded by age and by bytes.

In memory and per process. What an entry holds is the Responses protocol's business; here it is bytes
under an id.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_BYTES = 32 * 1024 * 1024
TTL_S = 3600.0  # from creation; reading does not prolong it


@dataclass(slots=True)
class _Entry:
    data: bytes
    expires_at: float


@dataclass
class ResponseStore:
    """For any thread. The least recently used entries go first."""

    max_bytes: int = MAX_BYTES
    ttl_s: float = TTL_S
    clock: Callable[[], float] = time.monotonic
    num_bytes: int = 0
    _entries: OrderedDict[str, _Entry] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, id: str, data: bytes) -> None:
        """An entry larger than the whole store is not kept."""
        size = _size(id, data)
        with self._lock:
            self._drop(id)
            self._expire()
            if size > self.max_bytes:
                return
            while self.num_bytes + size > self.max_bytes:
                self._drop(next(iter(self._entries)))
            self._entries[id] = _Entry(data, self.clock() + self.ttl_s)
            self.num_bytes += size

    def get(self, id: str) -> bytes | None:
        with self._lock:
            self._expire()
            entry = self._entries.get(id)
            if entry is None:
                return None
            self._entries.move_to_end(id)
            return entry.data

    def delete(self, id: str) -> bool:
        """Whether there was one."""
        with self._lock:
            self._expire()
            return self._drop(id)

    def _drop(self, id: str) -> bool:
        entry = self._entries.pop(id, None)
        if entry is None:
            return False
        self.num_bytes -= _size(id, entry.data)
        return True

    def counters(self) -> dict[str, int]:
        """As in /stats."""
        with self._lock:
            self._expire()
            return {
                "entries": len(self._entries),
                "bytes": self.num_bytes,
                "max_bytes": self.max_bytes,
                "ttl_ms": int(self.ttl_s * 1000),
            }

    def _expire(self) -> None:
        now = self.clock()
        for id in [id for id, entry in self._entries.items() if entry.expires_at <= now]:
            self._drop(id)


def _size(id: str, data: bytes) -> int:
    return len(id) + len(data)
