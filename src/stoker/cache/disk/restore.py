"""Histories on their way back from disk into the prefix index. Decisions of the engine thread.

A request whose prompt the disk knows better than memory waits here, not in the scheduler. Its blocks
are set aside on the engine thread, filled on the reader's, and published into the prefix index; then
the request goes its ordinary way and hits. Requests that wait for the same bytes share one read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stoker.cache.disk.index import Piece, common_length
from stoker.cache.disk.reader import Reader
from stoker.cache.disk.store import Store
from stoker.cache.prefix import PrefixIndex
from stoker.kv.blocks import BlockPool, OutOfMemory

log = logging.getLogger(__name__)

MIN_GAIN_TOKENS = 8  # fewer are computed sooner than read
MAX_ATTEMPTS = 4  # of a request whose files turn out to be bad
_RECLAIM_BLOCKS = 16


@dataclass(slots=True, eq=False)
class Ticket:
    """One request's interest in a restore."""

    tokens: tuple[int, ...]
    ready: Callable[[], None]  # called on the engine thread when the request can go on
    job: Job | None = None
    attempts: int = 0

    def cancel(self) -> None:
        """The request does not wait any more; a read that nobody waits for is broken off."""
        if self.job is not None:
            self.job.tickets.remove(self)
            self.job = None


@dataclass(slots=True, eq=False)
class Job:
    tokens: tuple[int, ...]
    base: list[int]  # whole blocks that memory has already, held
    num_in_memory: int
    started: float
    tickets: list[Ticket] = field(default_factory=list)
    fresh: list[int] = field(default_factory=list)  # blocks to fill, held
    pieces: list[Piece] = field(default_factory=list)

    @property
    def cancelled(self) -> bool:
        return not self.tickets


class Restores:
    """All methods run on the engine thread, except where said. `post` runs work there."""

    def __init__(
        self,
        store: Store,
        reader: Reader,
        prefixes: PrefixIndex,
        pool: BlockPool,
        *,
        block_size: int,
        post: Callable[[Callable[[], None]], None],
        publish: Callable[[Sequence[int], Sequence[int]], None],
        release_written: Callable[[], bool],
    ) -> None:
        self.num_restores = 0
        self.last_ms = 0
        self._store = store
        self._reader = reader
        self._prefixes = prefixes
        self._pool = pool
        self._block_size = block_size
        self._post = post
        self._publish = publish
        self._release_written = release_written
        self._jobs: list[Job] = []

    def request(self, ticket: Ticket) -> bool:
        """Starts or joins a restore for the ticket's tokens; False when there is nothing to wait for."""
        ticket.attempts += 1
        hit = self._prefixes.find(ticket.tokens)
        if ticket.attempts > MAX_ATTEMPTS or len(ticket.tokens) - hit.num_tokens < MIN_GAIN_TOKENS:
            return False
        for job in self._jobs:
            if common_length(job.tokens, ticket.tokens) - hit.num_tokens >= self._block_size:
                self._join(ticket, job)
                return True
        if self._store.index.reach(ticket.tokens) - hit.num_tokens < MIN_GAIN_TOKENS:
            return False
        base = hit.blocks[: hit.num_tokens // self._block_size]
        self._pool.retain(base)
        job = Job(ticket.tokens, base, hit.num_tokens, time.monotonic())
        self._join(ticket, job)
        self._jobs.append(job)
        self._reader.do(lambda: self._look_up(job))
        return True

    def _join(self, ticket: Ticket, job: Job) -> None:
        ticket.job = job
        job.tickets.append(ticket)

    def _look_up(self, job: Job) -> None:
        """On the reader's thread."""
        pieces: list[Piece] = []
        try:
            if not job.cancelled:
                pieces = self._store.find(job.tokens)
        except Exception:
            log.exception("disk cache: a look-up failed")
        self._post(lambda: self._set_aside(job, pieces))

    def _set_aside(self, job: Job, pieces: list[Piece]) -> None:
        num_tokens = sum(piece.count for piece in pieces)
        if job.cancelled or num_tokens - job.num_in_memory < MIN_GAIN_TOKENS:
            self._finish(job, 0)
            return
        wanted = -(-num_tokens // self._block_size) - len(job.base)
        while self._pool.num_free < wanted and (len(self._prefixes) or self._release_written()):
            self._prefixes.reclaim(min(_RECLAIM_BLOCKS, wanted - self._pool.num_free))
        try:
            job.fresh = self._pool.allocate(wanted)
        except OutOfMemory:
            self._finish(job, 0)
            return
        job.pieces = pieces
        self._reader.do(lambda: self._read(job))

    def _read(self, job: Job) -> None:
        """On the reader's thread."""
        num_tokens = 0
        try:
            num_tokens = self._store.read(
                job.pieces, len(job.base), job.fresh, cancelled=lambda: job.cancelled
            )
        except Exception:
            log.exception("disk cache: a restore failed")
        self._post(lambda: self._finish(job, num_tokens))

    def _finish(self, job: Job, num_tokens: int) -> None:
        if num_tokens > job.num_in_memory:
            self._publish(job.tokens[:num_tokens], job.base + job.fresh)
            self.num_restores += 1
            self.last_ms = round((time.monotonic() - job.started) * 1000)
        self._pool.release(job.fresh)
        self._pool.release(job.base)
        self._jobs.remove(job)
        # After a bad file another may hold the same; and those that joined may find more than was read.
        enough = num_tokens == sum(piece.count for piece in job.pieces)
        for position, ticket in enumerate(job.tickets):
            ticket.job = None
            if (enough and position == 0) or not self.request(ticket):
                ticket.ready()
