"""The plain KV layout: paged blocks in one dtype, shared by reference count.

Bookkeeping is in blocks.py. This file owns the tensors: it appends the step's keys and values
and attends, with torch operators. Storage is reserved as address space and becomes resident
only where blocks are written, so memory grows with use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from stoker.kv.attention import attend_single_tokens, attend_span
from stoker.kv.base import LayerSpec, RowSpan
from stoker.kv.blocks import BLOCK_SIZE, BlockPool, BlockTable


@dataclass(frozen=True, slots=True)
class SpanPlan:
    """A row that brings several tokens: its slice of the batch and its blocks."""

    first: int  # index of its first token in the batch
    length: int
    start: int  # position of its first token
    blocks: torch.Tensor  # int64 [number of blocks up to its last token]


@dataclass(frozen=True, slots=True)
class PagedPlan:
    """Shapes: T tokens in the step, R rows that bring one token, W widest table of those."""

    block_of_token: torch.Tensor  # int64 [T]
    offset_of_token: torch.Tensor  # int64 [T]
    spans: tuple[SpanPlan, ...]  # rows that bring several tokens
    single_at: torch.Tensor  # int64 [R], batch index of each single token
    single_tables: torch.Tensor  # int64 [R, W], padded with 0
    single_lengths: torch.Tensor  # int64 [R], tokens of the row including this one


class PagedKV:
    """Implements KVLayout (kv/base.py).

    layers      what each layer keeps per token
    num_blocks  capacity in blocks of BLOCK_SIZE tokens, over all rows
    """

    def __init__(
        self,
        layers: Sequence[LayerSpec],
        *,
        num_blocks: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.layers = tuple(layers)
        self.dtype = dtype
        self.device = torch.device(device)
        self.pool = BlockPool(num_blocks)

        def storage(*shape: int) -> torch.Tensor:
            return torch.empty(num_blocks, *shape, dtype=dtype, device=self.device)

        # Keys have tokens innermost, so that a kernel's vector lanes are keys.
        self.keys = [storage(spec.num_kv_heads, spec.head_dim, BLOCK_SIZE) for spec in self.layers]
        self.values = [storage(spec.num_kv_heads, BLOCK_SIZE, spec.head_dim) for spec in self.layers]
        self.bytes_per_block = sum(
            2 * spec.num_kv_heads * BLOCK_SIZE * spec.head_dim * dtype.itemsize for spec in self.layers
        )

    @property
    def parts(self) -> dict[str, torch.Tensor]:
        """Every tensor of the layout, each [num_blocks, ...]; see transfer.py."""
        named: dict[str, torch.Tensor] = {}
        for layer, (keys, values) in enumerate(zip(self.keys, self.values, strict=True)):
            named |= {f"layers.{layer}.keys": keys, f"layers.{layer}.values": values}
        return named

    @property
    def capacity_tokens(self) -> int:
        return self.pool.num_blocks * BLOCK_SIZE

    @property
    def capacity_bytes(self) -> int:
        return self.pool.num_blocks * self.bytes_per_block

    @property
    def used_bytes(self) -> int:
        return (self.pool.num_blocks - self.pool.num_free) * self.bytes_per_block

    def new_row(self) -> BlockTable:
        return BlockTable()

    def fits(self, num_tokens: int) -> bool:
        return -(-num_tokens // BLOCK_SIZE) <= self.pool.num_free

    def reserve(self, row: BlockTable, num_tokens: int) -> None:
        if num_tokens <= row.num_tokens:
            return
        tail = row.num_tokens // BLOCK_SIZE
        shares_tail = tail < len(row.blocks) and self.pool.is_shared(row.blocks[tail])
        missing = -(-num_tokens // BLOCK_SIZE) - len(row.blocks)
        fresh = self.pool.allocate(missing + shares_tail)
        if shares_tail:
            self._replace_by_copy(row, tail, fresh.pop())
        row.blocks.extend(fresh)
        row.num_tokens = num_tokens

    def adopt(self, blocks: list[int], num_tokens: int) -> BlockTable:
        self.pool.retain(blocks)
        return BlockTable(list(blocks), num_tokens)

    def fork(self, row: BlockTable) -> BlockTable:
        return self.adopt(row.blocks, row.num_tokens)

    def trim(self, row: BlockTable, num_tokens: int) -> None:
        keep = -(-num_tokens // BLOCK_SIZE)
        self.pool.release(row.blocks[keep:])
        del row.blocks[keep:]
        row.num_tokens = min(row.num_tokens, num_tokens)

    def free(self, row: BlockTable) -> None:
        self.trim(row, 0)

    def plan(self, spans: Sequence[RowSpan]) -> Any:
        blocks: list[int] = []
        offsets: list[int] = []
        several: list[SpanPlan] = []
        single_at: list[int] = []
        single_tables: list[list[int]] = []
        single_lengths: list[int] = []
        for span in spans:
            table: BlockTable = span.row
            end = span.start + span.length
            held = table.blocks[: -(-end // BLOCK_SIZE)]
            if span.length == 1:
                single_at.append(len(blocks))
                single_tables.append(held)
                single_lengths.append(end)
            else:
                ids = torch.tensor(held, dtype=torch.int64, device=self.device)
                several.append(SpanPlan(len(blocks), span.length, span.start, ids))
            for position in range(span.start, end):
                blocks.append(held[position // BLOCK_SIZE])
                offsets.append(position % BLOCK_SIZE)
        widest = max(map(len, single_tables), default=0)
        padded = [table + [0] * (widest - len(table)) for table in single_tables]

        def int64(values: object) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.int64, device=self.device)

        return PagedPlan(
            int64(blocks),
            int64(offsets),
            tuple(several),
            int64(single_at),
            int64(padded).reshape(len(padded), widest),
            int64(single_lengths),
        )

    def attend(
        self,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        plan: Any,
        *,
        scale: float,
        softcap: float | None = None,
    ) -> torch.Tensor:
        keys, values, window = self.keys[layer], self.values[layer], self.layers[layer].window
        keys[plan.block_of_token, :, :, plan.offset_of_token] = k.to(self.dtype)
        values[plan.block_of_token, :, plan.offset_of_token] = v.to(self.dtype)
        out = torch.empty_like(q)
        for span in plan.spans:
            rows = slice(span.first, span.first + span.length)
            out[rows] = attend_span(
                q[rows],
                keys[span.blocks].permute(1, 0, 3, 2).flatten(1, 2),
                values[span.blocks].transpose(0, 1).flatten(1, 2),
                start=span.start,
                scale=scale,
                window=window,
                softcap=softcap,
            )
        if plan.single_at.numel():
            tables = plan.single_tables
            out[plan.single_at] = attend_single_tokens(
                q[plan.single_at],
                keys[tables].permute(0, 2, 1, 4, 3).flatten(2, 3),
                values[tables].transpose(1, 2).flatten(2, 3),
                lengths=plan.single_lengths,
                scale=scale,
                window=window,
                softcap=softcap,
            )
        return out

    def _replace_by_copy(self, row: BlockTable, index: int, copy: int) -> None:
        original = row.blocks[index]
        for storage in (*self.keys, *self.values):
            storage[copy].copy_(storage[original])
        self.pool.release([original])
        row.blocks[index] = copy
