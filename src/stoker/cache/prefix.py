"""The prefix index: which token sequences have their keys and values in which blocks. No tensors.

A tree of nodes, one KV block each. A node's tokens follow its parent's, so a path from the root is
a sequence, and sequences that begin alike share their first nodes. Inner nodes are full blocks; a
leaf may be partly filled. A look-up walks down by whole blocks and takes as much of the last one
as matches, so a hit is exact to the token.

The index holds a reference on each of its blocks. Rows that hit take references of their own, and
a shared block is copied before it is written (kv/blocks.py), so nothing a row does changes what
is stored. Everything here runs on the engine thread.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stoker.kv.blocks import BlockPool


@dataclass(slots=True, eq=False)
class Node:
    tokens: tuple[int, ...]  # of this block; fewer than a block only in a leaf
    block: int
    parent: Node | None
    children: dict[int, list[Node]] = field(default_factory=dict)  # by first token
    used_at: float = 0.0  # monotonic seconds
    saved: bool = False  # on disk or on its way there

    def add(self, child: Node) -> None:
        self.children.setdefault(child.tokens[0], []).append(child)

    def remove(self, child: Node) -> None:
        alike = self.children[child.tokens[0]]
        alike.remove(child)
        if not alike:
            del self.children[child.tokens[0]]


@dataclass(frozen=True, slots=True)
class Hit:
    """Blocks that hold the first `num_tokens` tokens; the last block may hold more."""

    blocks: list[int]
    num_tokens: int


class Listener(Protocol):
    """Who wants to know what the index keeps and lets go: the disk tier."""

    def published(self, path: Sequence[Node], tokens: Sequence[int], blocks: Sequence[int]) -> None:
        """`blocks` hold `tokens`, now known as the nodes of `path`."""
        ...

    def evicting(self, node: Node) -> None:
        """The node, which has no children, is about to leave; its block is still held."""
        ...

    def release_pending(self) -> bool:
        """Lets go of some memory held beyond the index; False when there is none."""
        ...


class PrefixIndex:
    """At most `max_blocks` blocks, the least recently used sequences leaving first."""

    def __init__(self, pool: BlockPool, *, block_size: int, max_blocks: int) -> None:
        self.max_blocks = max_blocks
        self.listener: Listener | None = None
        self._pool = pool
        self._block_size = block_size
        self._root = Node((), -1, None)
        # Least recently used first. A node is always used after its children, so the first leaf
        # found is the stalest and parents never go before their children.
        self._by_use: OrderedDict[Node, None] = OrderedDict()

    def __len__(self) -> int:
        """Blocks held."""
        return len(self._by_use)

    def find(self, tokens: Sequence[int]) -> Hit:
        """The longest stored prefix of `tokens`. Takes no reference; use it at once."""
        path: list[Node] = []
        num_tokens = 0
        node = self._root
        while num_tokens < len(tokens):
            child, length = self._best_child(node, tokens, num_tokens)
            if child is None:
                break
            path.append(child)
            num_tokens += length
            if length < self._block_size:
                break
            node = child
        self._touch(path)
        return Hit([node.block for node in path], num_tokens)

    def publish(self, tokens: Sequence[int], blocks: Sequence[int]) -> None:
        """Remembers that `blocks` hold `tokens`. What is already known is not stored again."""
        path: list[Node] = []
        node = self._root
        for index, start in enumerate(range(0, len(tokens), self._block_size)):
            part = tuple(tokens[start : start + self._block_size])
            child, length = self._best_child(node, part, 0)
            if child is None or length < len(part):
                child = self._store(node, part, blocks[index], child, length)
            path.append(child)
            node = child
        self._touch(path)
        if self.listener is not None and path:
            self.listener.published(path, tokens, blocks)
        self.reclaim(len(self._by_use) - self.max_blocks)

    def reclaim(self, num_blocks: int) -> int:
        """Lets go of up to `num_blocks` blocks, stalest first; returns how many became free.
        Blocks that a row is using stay in memory, so they count only as let go."""
        freed = 0
        while num_blocks > 0 and self._by_use:
            node = next(iter(self._by_use))
            freed += self._evict(node)
            num_blocks -= 1
        return freed

    def release_pending(self) -> bool:
        """When nothing is left to reclaim: memory that waits for a write, if there is any."""
        return self.listener is not None and self.listener.release_pending()

    def demote(self, before: float) -> int:
        """Lets go of everything last used before that monotonic time; returns how many blocks."""
        count = 0
        while self._by_use and (node := next(iter(self._by_use))).used_at < before:
            self._evict(node)
            count += 1
        return count

    def unsaved_leaves(self) -> list[Node]:
        return [node for node in self._by_use if not node.children and not node.saved]

    def clear(self) -> None:
        self.reclaim(len(self._by_use))

    def _best_child(self, node: Node, tokens: Sequence[int], start: int) -> tuple[Node | None, int]:
        """The child sharing most tokens with tokens[start:], and how many."""
        best, longest = None, 0
        for child in node.children.get(tokens[start], ()):
            length = _common_length(child.tokens, tokens, start)
            if length > longest:
                best, longest = child, length
        return best, longest

    def _store(
        self, parent: Node, part: tuple[int, ...], block: int, known: Node | None, length: int
    ) -> Node:
        """A new child, replacing a leaf that holds only the beginning of the same tokens."""
        self._pool.retain([block])
        if known is not None and length == len(known.tokens):
            self._drop(known)
        child = Node(part, block, parent)
        parent.add(child)
        self._by_use[child] = None
        return child

    def _evict(self, node: Node) -> bool:
        """True when that freed memory."""
        if self.listener is not None:
            self.listener.evicting(node)
        frees = not self._pool.is_shared(node.block)
        self._drop(node)
        return frees

    def _drop(self, node: Node) -> None:
        assert node.parent is not None
        assert not node.children
        node.parent.remove(node)
        del self._by_use[node]
        self._pool.release([node.block])

    def _touch(self, path: list[Node]) -> None:
        now = time.monotonic()
        for node in reversed(path):  # children first, so that parents outlive them
            self._by_use.move_to_end(node)
            node.used_at = now


def _common_length(known: Sequence[int], tokens: Sequence[int], start: int) -> int:
    length = 0
    for a, b in zip(known, tokens[start : start + len(known)], strict=False):
        if a != b:
            break
        length += 1
    return length
