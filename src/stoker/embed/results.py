"""Vectors kept from earlier requests, by a hash of their tokens, and requests that compute only what is new.

Whole vectors of one model are kept; instructions and prompts are part of the tokens, and `dimensions` cuts
afterwards. A text that comes twice in a request is computed once.
"""

from __future__ import annotations

import hashlib
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stoker.embed.lane import Job, Lane
from stoker.embed.model import EmbeddingModel
from stoker.embed.packing import Tokens
from stoker.embed.passes import Vectors

ENTRY_BYTES = 256  # what an entry takes beside its numbers

Key = bytes
Vector = np.ndarray[tuple[int], np.dtype[np.float32]]


def key_of(item: Tokens) -> Key:
    return hashlib.blake2b(array("I", item.ids).tobytes(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class ResultStats:
    entries: int
    bytes: int
    max_bytes: int
    hits: int  # texts that were not computed, those that came twice in a request among them
    misses: int


class ResultCache:
    """The least recently used vectors go first. Thread-safe."""

    def __init__(self, max_bytes: int = 0) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._vectors: OrderedDict[Key, Vector] = OrderedDict()
        self._bytes = 0
        self._hits = 0
        self._misses = 0

    def find(self, keys: Sequence[Key]) -> dict[Key, Vector]:
        """Those of `keys` that are here."""
        found: dict[Key, Vector] = {}
        with self._lock:
            for key in keys:
                if key not in found and (vector := self._vectors.get(key)) is not None:
                    self._vectors.move_to_end(key)
                    found[key] = vector
            misses = len(set(keys) - found.keys())
            self._misses += misses
            self._hits += len(keys) - misses
        return found

    def add(self, vectors: Mapping[Key, Vector]) -> None:
        with self._lock:
            for key, vector in vectors.items():
                size = vector.nbytes + ENTRY_BYTES
                if key in self._vectors or size > self._max_bytes:
                    continue
                self._vectors[key] = vector.copy()  # a view would keep its whole request in memory
                self._bytes += size
            while self._bytes > self._max_bytes:
                _, oldest = self._vectors.popitem(last=False)
                self._bytes -= oldest.nbytes + ENTRY_BYTES

    def stats(self) -> ResultStats:
        with self._lock:
            return ResultStats(len(self._vectors), self._bytes, self._max_bytes, self._hits, self._misses)


class Embedding:
    """One request under way: `job` computes what is missing, then `vectors` has all."""

    def __init__(
        self,
        model: EmbeddingModel,
        lane: Lane,
        results: ResultCache,
        items: Sequence[Tokens],
        progress: Callable[[int], None] = lambda num_items: None,  # called with how many more are done
    ) -> None:
        """Raises QueueFull or Unavailable."""
        self._keys = [key_of(item) for item in items]
        self._results = results
        self._width = model.dimension
        self._found = results.find(self._keys)
        missing = {key: item for key, item in zip(self._keys, items, strict=True) if key not in self._found}
        self._missing = list(missing)
        passes = model.passes(list(missing.values()))
        self.job = Job(passes, len(missing), model.dimension, progress)
        lane.submit(self.job)
        progress(len(items) - len(missing))

    def vectors(self, computed: Vectors) -> Vectors:
        """One row per item, from the job's rows."""
        new: dict[Key, Vector] = dict(zip(self._missing, computed, strict=True))
        self._results.add(new)
        rows = np.empty((len(self._keys), self._width), np.float32)
        for index, key in enumerate(self._keys):
            rows[index] = new[key] if key in new else self._found[key]
        return rows
