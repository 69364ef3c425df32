"""Embedding and reranking as the rest of the program asks for it: models loaded when first needed,
their work queued on lanes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from stoker.embed.encoder import Encoder
from stoker.embed.lane import Host, Job, Lane, OwnThread
from stoker.embed.model import EmbeddingModel, Pass
from stoker.embed.reranker import Reranker


class Loadable(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def encoder(self) -> Encoder: ...


M = TypeVar("M", bound=Loadable)


@dataclass(frozen=True, slots=True)
class Part(Generic[M]):
    """One model that may be needed."""

    id: str
    load: Callable[[], M]


class Loaded(Generic[M]):
    """A model and the lane it runs on."""

    def __init__(self, model: M, lane: Lane) -> None:
        self.model = model
        self.lane = lane

    def start(self, passes: list[Pass], num_items: int, width: int) -> Job:
        """Raises QueueFull or Unavailable."""
        job = Job(passes, num_items, width)
        self.lane.submit(job)
        return job


class _Slot(Generic[M]):
    """Loads a part once, whoever asks first; a failure is told to everyone and tried again later."""

    def __init__(self, part: Part[M], make_lane: Callable[[Encoder], Lane]) -> None:
        self.part = part
        self._make_lane = make_lane
        self._lock = threading.Lock()
        self.loaded: Loaded[M] | None = None

    def get(self) -> Loaded[M]:
        with self._lock:
            if self.loaded is None:
                model = self.part.load()
                self.loaded = Loaded(model, self._make_lane(model.encoder))
            return self.loaded


class EmbedService:
    """`embedding()` and `reranker()` load on first use: call them in a thread."""

    def __init__(
        self,
        embedding: Part[EmbeddingModel] | None = None,
        reranker: Part[Reranker] | None = None,
        *,
        host: Host | None = None,  # None: a thread of our own drives the lanes
        num_threads: int = 1,
        torch_threads: int = 1,  # of models that are not parallel
    ) -> None:
        self._own = OwnThread() if host is None else None
        self._host: Host = host if host is not None else self._own_host
        self._num_threads = num_threads
        self._torch_threads = torch_threads
        self._embedding = None if embedding is None else _Slot(embedding, self._make_lane)
        self._reranker = None if reranker is None else _Slot(reranker, self._make_lane)
        self.workers = ThreadPoolExecutor(2, "stoker-embed-prepare")  # loading, tokenizing, answers

    @property
    def embedding_id(self) -> str | None:
        return None if self._embedding is None else self._embedding.part.id

    @property
    def reranker_id(self) -> str | None:
        return None if self._reranker is None else self._reranker.part.id

    def embedding(self) -> Loaded[EmbeddingModel] | None:
        """None when there is no such model here. Raises ModelError."""
        return None if self._embedding is None else self._embedding.get()

    def reranker(self) -> Loaded[Reranker] | None:
        return None if self._reranker is None else self._reranker.get()

    def close(self) -> None:
        """Unfinished work fails."""
        for slot in (self._embedding, self._reranker):
            if slot is not None and slot.loaded is not None:
                slot.loaded.lane.close()
        if self._own is not None:
            self._own.close()
        self.workers.shutdown(wait=False)

    def _own_host(self, work: Callable[[float], bool]) -> None:
        assert self._own is not None
        self._own.host(work)

    def _make_lane(self, encoder: Encoder) -> Lane:
        if encoder.is_parallel:
            return Lane(self._host, num_threads=self._num_threads)
        return Lane(self._host, torch_threads=self._torch_threads)
