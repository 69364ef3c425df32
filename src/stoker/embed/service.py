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
from stoker.embed.model import EmbeddingModel
from stoker.embed.passes import Pass
from stoker.embed.reranker import Reranker
from stoker.embed.results import ResultCache


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


Find = Callable[[], Part[M] | None]  # may read the disk


@dataclass(frozen=True, slots=True)
class EncoderStats:
    id: str | None = None  # None until it is loaded
    weights_bytes: int = 0
    requests: int = 0
    items: int = 0  # texts or pairs of those
    waiting: int = 0  # requests with passes that have not begun


class Loaded(Generic[M]):
    """A model and the lane it runs on."""

    def __init__(self, model: M, lane: Lane) -> None:
        self.model = model
        self.lane = lane

    def start(
        self,
        passes: list[Pass],
        num_items: int,
        width: int,
        progress: Callable[[int], None] = lambda num_items: None,  # called with how many more are done
    ) -> Job:
        """Raises QueueFull or Unavailable."""
        job = Job(passes, num_items, width, progress)
        self.lane.submit(job)
        return job

    def stats(self) -> EncoderStats:
        lane = self.lane.stats()
        return EncoderStats(self.model.id, self.model.encoder.nbytes, lane.jobs, lane.items, lane.waiting)


class _Slot(Generic[M]):
    """Finds and loads a part once, whoever asks first. Nothing found, or a failure, is tried again the
    next time: a model may have been downloaded meanwhile."""

    def __init__(self, find: Find[M], make_lane: Callable[[Encoder], Lane]) -> None:
        self._find = find
        self._make_lane = make_lane
        self._lock = threading.Lock()
        self._part: Part[M] | None = None
        self.loaded: Loaded[M] | None = None

    def part(self) -> Part[M] | None:
        if self._part is None:
            self._part = self._find()
        return self._part

    def get(self) -> Loaded[M] | None:
        with self._lock:
            if self.loaded is None and (part := self.part()) is not None:
                model = part.load()
                self.loaded = Loaded(model, self._make_lane(model.encoder))
            return self.loaded


def nothing() -> None:
    """A `Find` that finds no model."""


class EmbedService:
    """`embedding()` and `reranker()` load on first use: call them in a thread."""

    def __init__(
        self,
        embedding: Find[EmbeddingModel] = nothing,
        reranker: Find[Reranker] = nothing,
        *,
        host: Host | None = None,  # None: a thread of our own drives the lanes
        num_threads: int = 1,
        torch_threads: int = 1,  # of models that are not parallel
        result_bytes: int = 0,  # for vectors kept from earlier requests
    ) -> None:
        self._own = OwnThread() if host is None else None
        self._host: Host = host if host is not None else self._own_host
        self._num_threads = num_threads
        self._torch_threads = torch_threads
        self._embedding = _Slot(embedding, self._make_lane)
        self._reranker = _Slot(reranker, self._make_lane)
        self.results = ResultCache(result_bytes)  # of the embedding model
        self.workers = ThreadPoolExecutor(2, "stoker-embed-prepare")  # loading, tokenizing, answers

    def embedding_id(self) -> str | None:
        """May read the disk, and loads nothing."""
        part = self._embedding.part()
        return None if part is None else part.id

    def embedding(self) -> Loaded[EmbeddingModel] | None:
        """None when there is no such model here. Raises ModelError."""
        return self._embedding.get()

    def reranker(self) -> Loaded[Reranker] | None:
        return self._reranker.get()

    def stats(self) -> dict[str, EncoderStats]:
        """Of `embedding` and `rerank`. Loads nothing and reads no disk."""
        return {
            kind: EncoderStats() if loaded is None else loaded.stats()
            for kind, loaded in (("embedding", self._embedding.loaded), ("rerank", self._reranker.loaded))
        }

    def close(self) -> None:
        """Unfinished work fails."""
        for loaded in (self._embedding.loaded, self._reranker.loaded):
            if loaded is not None:
                loaded.lane.close()
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
