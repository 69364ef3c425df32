"""Blocks of KV memory, counted: who holds which block, and which are free. No tensors.

A row's contents are a table of block numbers. Tables share blocks by reference count; a shared
block is copied before it is written (copy-on-write), which makes forks and prefix hits free.
The scheme is that of PagedAttention (Kwon et al., 2023, arXiv:2309.06180).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

BLOCK_SIZE = 32  # tokens per block


class OutOfMemory(Exception):
    """No room for the tokens asked for; nothing was changed."""


@dataclass(slots=True, eq=False)
class BlockTable:
    """One row. Position p lives in block `blocks[p // block_size]` at offset `p % BLOCK_SIZE`."""

    blocks: list[int] = field(default_factory=list)
    num_tokens: int = 0  # tokens held, or about to be written by the planned step


class BlockPool:
    """Reference-counted blocks 0 .. num_blocks-1.

    The lowest free number is handed out first, so that memory that was never needed is never
    touched (the storage is virtual until written).
    """

    def __init__(self, num_blocks: int) -> None:
        self.num_blocks = num_blocks
        self._references = [0] * num_blocks
        self._free = list(range(num_blocks))  # a sorted list is a valid heap

    @property
    def num_free(self) -> int:
        return len(self._free)

    def allocate(self, count: int) -> list[int]:
        """`count` blocks with one reference each. Raises OutOfMemory and takes none if short."""
        if count > len(self._free):
            raise OutOfMemory(f"{count} KV blocks wanted, {len(self._free)} free of {self.num_blocks}")
        taken = [heapq.heappop(self._free) for _ in range(count)]
        for block in taken:
            self._references[block] = 1
        return taken

    def retain(self, blocks: list[int]) -> None:
        for block in blocks:
            self._references[block] += 1

    def release(self, blocks: list[int]) -> None:
        for block in blocks:
            self._references[block] -= 1
            assert self._references[block] >= 0, f"block {block} released twice"
            if self._references[block] == 0:
                heapq.heappush(self._free, block)

    def is_shared(self, block: int) -> bool:
        return self._references[block] > 1
