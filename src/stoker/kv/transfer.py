"""Blocks of a KV layout as bytes: out of its storage and into it, part by part.

A part is one tensor of the layout whose first dimension is the block number (the keys of one
layer, say). What the bytes mean is the layout's own affair; whoever stores them needs only the
names and sizes. Copies are plain memory copies and leave the interpreter to others meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

# torch's types by the names the safetensors format gives them.
_NAMES = {
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int32: "I32",
}


@dataclass(frozen=True, slots=True)
class Part:
    """One tensor of a block."""

    name: str
    dtype: str  # in the words of safetensors
    shape: tuple[int, ...]  # of one block
    block_bytes: int


class KVWithParts(Protocol):
    @property
    def parts(self) -> Mapping[str, torch.Tensor]:
        """The layout's tensors, each [num_blocks, ...]."""
        ...


class BlockTransfer:
    """Reads and writes blocks of one layout. The caller sees to it that nobody writes the blocks
    it exports, and that nobody else uses those it imports into."""

    def __init__(self, kv: KVWithParts) -> None:
        self._storages = list(kv.parts.values())
        self.parts = tuple(
            Part(name, _NAMES[storage.dtype], tuple(storage.shape[1:]), storage[0].numel() * storage.itemsize)
            for name, storage in kv.parts.items()
        )
        self.block_bytes = sum(part.block_bytes for part in self.parts)

    def export_blocks(self, part: int, blocks: Sequence[int], out: memoryview) -> None:
        """Copies the part of these blocks into `out`, which is exactly as large."""
        storage = self._storages[part]
        flat = torch.frombuffer(out, dtype=storage.dtype).view(len(blocks), *storage.shape[1:])
        for at, first, length in _runs(blocks):
            flat[at : at + length].copy_(storage[first : first + length])

    def import_blocks(self, part: int, blocks: Sequence[int], data: memoryview) -> None:
        """The way back."""
        storage = self._storages[part]
        flat = torch.frombuffer(data, dtype=storage.dtype).view(len(blocks), *storage.shape[1:])
        for at, first, length in _runs(blocks):
            storage[first : first + length].copy_(flat[at : at + length])


def _runs(blocks: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(index, first block, length) of each run of consecutive block numbers."""
    start = 0
    for index in range(1, len(blocks) + 1):
        if index == len(blocks) or blocks[index] != blocks[index - 1] + 1:
            yield start, blocks[start], index - start
            start = index
