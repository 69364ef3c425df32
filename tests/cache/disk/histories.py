"""A layout small enough to read: a block's bytes say which tokens it holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stoker.cache.disk.keys import Namespace
from stoker.cache.disk.segment import Frame
from stoker.cache.disk.store import Store

SIZE = 4


@dataclass(frozen=True)
class FakePart:
    name: str
    dtype: str
    shape: tuple[int, ...]
    block_bytes: int


class FakeBlocks:
    """Two parts; a block is a list of bytes for each."""

    parts = (
        FakePart("layers.0.keys", "U8", (SIZE, 2), 2 * SIZE),
        FakePart("layers.0.values", "U8", (SIZE,), SIZE),
    )
    block_bytes = 3 * SIZE

    def __init__(self) -> None:
        self.memory: dict[tuple[int, int], bytes] = {}

    def fill(self, tokens: list[int], first: int = 0) -> list[int]:
        """Blocks first.. that hold the tokens as a model would have computed them."""
        ids = []
        for number, start in enumerate(range(0, len(tokens), SIZE)):
            block = first + number
            self.memory |= {(part, block): data for part, data in self.expected(tokens, start).items()}
            ids.append(block)
        return ids

    @staticmethod
    def expected(tokens: list[int], start: int) -> dict[int, bytes]:
        """Depends on the whole history before, as keys and values do."""
        values = bytes(sum(tokens[: at + 1]) % 251 for at in range(start, min(start + SIZE, len(tokens))))
        values = values.ljust(SIZE, b"\0")
        return {0: values + values[::-1], 1: values}

    def export_blocks(self, part, blocks, out) -> None:
        out[:] = b"".join(self.memory[part, block] for block in blocks)

    def import_blocks(self, part, blocks, data) -> None:
        size = self.parts[part].block_bytes
        for at, block in enumerate(blocks):
            self.memory[part, block] = bytes(data[at * size : (at + 1) * size])


def namespace(name: str = "a") -> Namespace:
    return Namespace({"model": name})


def open_store(root: Path, name: str = "a", **options) -> tuple[Store, FakeBlocks]:
    blocks = FakeBlocks()
    space = namespace(name)
    store = Store(root, space, Frame(space.fingerprint, SIZE, blocks), **options)
    store.scan()
    return store, blocks


def save(store: Store, blocks: FakeBlocks, tokens: list[int]) -> int:
    return store.write(tokens, blocks.fill(tokens))


def restore(store: Store, blocks: FakeBlocks, tokens: list[int], first: int = 0) -> int:
    """Reads what there is into blocks 1000.. and checks the bytes; returns how many tokens."""
    pieces = store.find(tokens)
    num_blocks = -(-sum(piece.count for piece in pieces) // SIZE)
    ids = list(range(1000, 1000 + num_blocks - first))
    found = store.read(pieces, first, ids, lambda: False)
    for number in range(first, -(-found // SIZE)):
        valid = min(SIZE, found - number * SIZE)
        expected = FakeBlocks.expected(tokens, number * SIZE)
        assert blocks.memory[1, 1000 + number - first][:valid] == expected[1][:valid]
        assert blocks.memory[0, 1000 + number - first][:valid] == expected[0][:valid]
    return found
