"""Which rows compute how many tokens in the next step. Deciding only: no torch, no clock.

There is no prefill phase and no decode phase, only tokens not yet computed. A row that has one
such token is decoding and is in every step; the others share at most one chunk of tokens per
step, first come first served, so that no decoding row ever waits for more than one chunk. Beside
decoding rows the chunk is small, so that they keep a fair part of their speed. When KV memory
runs out, the youngest row gives its blocks back and is computed again later (recomputation, as
in PagedAttention, arXiv:2309.06180).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from stoker.cache import Hit, Node
from stoker.engine.pacing import PrefillPacer
from stoker.engine.row import Row
from stoker.kv.blocks import BLOCK_SIZE, OutOfMemory


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A row and how many of its pending tokens the step computes (already reserved)."""

    row: Row
    num_tokens: int

    @property
    def completes(self) -> bool:
        """The step computes the row's last token, so its logits choose the next one."""
        return self.num_tokens == self.row.num_pending


class RowStorage(Protocol):
    """The part of KVLayout that scheduling needs."""

    def new_row(self) -> Any: ...
    def adopt(self, blocks: list[int], num_tokens: int) -> Any: ...
    def fits(self, num_tokens: int) -> bool: ...
    def reserve(self, row: Any, num_tokens: int) -> None: ...
    def fork(self, row: Any) -> Any: ...
    def trim(self, row: Any, num_tokens: int) -> None: ...
    def free(self, row: Any) -> None: ...


class PrefixCache(Protocol):
    """The part of cache.PromptCache that scheduling needs."""

    def __len__(self) -> int: ...
    def find(self, tokens: Sequence[int], *, namespace: str, session: str | None) -> Hit: ...
    def publish(
        self,
        tokens: Sequence[int],
        blocks: Sequence[int],
        *,
        namespace: str,
        session: str | None,
        after: Node | None,
    ) -> Node | None: ...
    def reclaim(self, num_blocks: int) -> int: ...
    def release_pending(self) -> bool: ...


# Blocks the prefix cache gives up at a time when a row needs memory.
_RECLAIM_BLOCKS = 16

# KV room that must stay free for each running row when another is admitted, in tokens: without
# it a full cache would admit a row only to preempt it a step later.
_HEADROOM_TOKENS = 64


class Scheduler:
    """`on_admit` is called with each row when it first joins the running ones.

    budget_blocks  blocks that the running rows together may come to need; None = no such limit. A
                   row that would exceed it waits. One that needs more alone must not be added.
    """

    def __init__(
        self,
        kv: RowStorage,
        *,
        max_rows: int,
        prefill_chunk: int,
        pacer: PrefillPacer | None,
        budget_blocks: int | None = None,
        prefixes: PrefixCache | None = None,
        on_admit: Callable[[Row], None] = lambda row: None,
    ) -> None:
        self.max_rows = max_rows
        self.prefill_chunk = prefill_chunk
        self._pacer = pacer
        self.running: list[Row] = []  # oldest first
        self.waiting: deque[Row] = deque()
        self.num_preemptions = 0
        self._budget_blocks = budget_blocks
        self._num_published = 0
        self._kv = kv
        self._prefixes = prefixes
        self._on_admit = on_admit

    @property
    def projected_blocks(self) -> int:
        """Blocks that the running rows may come to need."""
        return sum(blocks_for(row.max_length) for row in list(self.running))

    @property
    def num_prompts(self) -> int:
        """Running rows that have more than their next token to compute."""
        return sum(row.num_pending > 1 for row in self.running)

    def add(self, row: Row) -> None:
        self.waiting.append(row)

    def schedule(self, *, admit: bool = True) -> list[Scheduled]:
        """The next step's work, its KV reserved; empty when there is nothing to do.

        admit  False holds waiting rows back, so that the running ones drain.
        """
        if admit:
            self._admit()
        step: list[Scheduled] = []
        chunk = self._chunk()
        for row in list(self.running):
            if row.kv is None:
                continue  # preempted by an older row of this same pass
            if row.num_pending > 1:
                self._catch_up(row)
            wanted = row.num_pending
            if wanted > 1:
                wanted = min(wanted, chunk)
                chunk -= wanted
            if wanted and self._reserve(row, wanted):
                step.append(Scheduled(row, wanted))
        return [item for item in step if item.row.kv is not None]

    def account(self, item: Scheduled) -> None:
        """The step computed `item`. A completed prompt is now there for its siblings."""
        row = item.row
        was_complete = row.num_computed >= row.num_prompt
        row.num_computed += item.num_tokens
        if row.num_computed < row.num_prompt or was_complete:
            return
        if row.siblings:
            self._share_prompt(row)
        self._publish(row, whole_blocks=True)

    def remove(self, row: Row, *, publish: bool = True) -> None:
        """The row has ended, whatever its state. What it computed is kept for later requests,
        unless `publish` is False because it may be damaged."""
        if row in self.running:
            self.running.remove(row)
        elif row in self.waiting:
            self.waiting.remove(row)
        for sibling in row.siblings:
            sibling.leader = None  # they prefill for themselves
        row.siblings = []
        if row.leader is not None:
            row.leader.siblings.remove(row)
            row.leader = None
        if row.kv is not None:
            if publish:
                self._publish(row)
            self._kv.free(row.kv)
            row.kv = None

    def _chunk(self) -> int:
        """Tokens for all prefilling rows together: what the pacer allows beside rows that decode."""
        if self._pacer is None or not any(row.num_pending == 1 for row in self.running):
            return self.prefill_chunk
        return min(self._pacer.chunk(), self.prefill_chunk)

    def _admit(self) -> None:
        held_back: list[Row] = []
        while self.waiting and len(self.running) < self.max_rows:
            row = self.waiting.popleft()
            if row.leader is not None:
                held_back.append(row)
                continue
            if not self._within_budget(row):
                self.waiting.appendleft(row)
                break
            if row.kv is None:
                self._begin(row)
            headroom = _HEADROOM_TOKENS * len(self.running)
            if self.running and not self._make_room(row.num_pending + headroom):
                self.waiting.appendleft(row)
                break
            self.running.append(row)
            if not row.admitted:
                row.admitted = True
                self._on_admit(row)
        self.waiting.extendleft(reversed(held_back))

    def _within_budget(self, row: Row) -> bool:
        if self._budget_blocks is None:
            return True
        return self.projected_blocks + blocks_for(row.max_length) <= self._budget_blocks

    def _begin(self, row: Row) -> None:
        """Storage for the row, with as much of its tokens as the cache already has. One token is
        always left to compute: its logits choose the next."""
        hit = self._look_up(row)
        if hit is None or not hit.num_tokens:
            row.kv = self._kv.new_row()
            return
        row.from_session = hit.from_session
        row.kv = self._kv.adopt(hit.blocks, hit.num_tokens)
        row.num_computed = hit.num_tokens
        row.num_cached = min(hit.num_tokens, row.num_prompt)

    def _catch_up(self, row: Row) -> None:
        """Takes over what others have published of the row's prompt since it was looked up: of
        several requests that begin alike and arrive together, one computes the beginning."""
        if row.looked_up_at == self._num_published or (hit := self._look_up(row)) is None:
            return
        if hit.num_tokens > row.num_computed:
            taken_over = self._kv.adopt(hit.blocks, hit.num_tokens)
            self._kv.free(row.kv)
            row.kv = taken_over
            row.num_cached += max(0, min(hit.num_tokens, row.num_prompt) - row.num_computed)
            row.num_computed = hit.num_tokens

    def _look_up(self, row: Row) -> Hit | None:
        row.looked_up_at = self._num_published
        if self._prefixes is None:
            return None
        namespace = row.request.namespace
        return self._prefixes.find(row.tokens[:-1], namespace=namespace, session=row.session)

    def _publish(self, row: Row, *, whole_blocks: bool = False) -> None:
        """A row that goes on keeps its last block to itself, or its next token would copy it."""
        if self._prefixes is not None:
            self._num_published += 1
            num_tokens = row.num_computed - (row.num_computed % BLOCK_SIZE if whole_blocks else 0)
            row.published = self._prefixes.publish(
                row.tokens[:num_tokens],
                row.kv.blocks,
                namespace=row.request.namespace,
                session=row.session,
                after=row.published,
            )

    def _make_room(self, num_tokens: int) -> bool:
        """Whether that many tokens fit, after the prefix cache has given up what it must."""
        while not self._kv.fits(num_tokens):
            if not self._reclaim():
                return False
        return True

    def _reclaim(self) -> bool:
        """Takes memory back from the prefix cache; False when it has none left."""
        if self._prefixes is None:
            return False
        if not len(self._prefixes):
            return self._prefixes.release_pending()
        self._prefixes.reclaim(_RECLAIM_BLOCKS)
        return True

    def _share_prompt(self, leader: Row) -> None:
        """Each sibling gets the leader's prompt, less the last token: computing that one again
        gives the sibling logits of its own to sample from."""
        shared = leader.num_prompt - 1
        for sibling in leader.siblings:
            sibling.leader = None
            if shared:
                sibling.kv = self._kv.fork(leader.kv)
                self._kv.trim(sibling.kv, shared)
                sibling.num_computed = shared
        leader.siblings = []

    def _reserve(self, row: Row, num_tokens: int) -> bool:
        """Room for the row's next tokens, taken from younger rows if need be."""
        while True:
            try:
                self._kv.reserve(row.kv, row.num_computed + num_tokens)
                return True
            except OutOfMemory:
                if self._reclaim():
                    continue
                victim = self._youngest_holder()
                self._preempt(victim)
                if victim is row:
                    return False

    def _youngest_holder(self) -> Row:
        for row in reversed(self.waiting):  # a forked sibling holds blocks while it waits
            if row.kv is not None:
                return row
        return self.running[-1]

    def _preempt(self, row: Row) -> None:
        self.num_preemptions += 1
        self._kv.free(row.kv)
        row.kv = None
        row.num_computed = 0
        if row in self.running:
            self.running.remove(row)
            self.waiting.appendleft(row)


def blocks_for(num_tokens: int) -> int:
    return -(-num_tokens // BLOCK_SIZE)
