"""The prefix index: which token sequences have their keys and values in which blocks. No tensors.

A tree of nodes, one KV block each, for each namespace (a name for everything besides the tokens that
keys and values depend on). A node's tokens follow its parent's, so a path from a root is a
sequence, and sequences that begin alike share their first nodes. Inner nodes are full blocks; a
leaf may be partly filled. A look-up walks down by whole blocks and takes as much of the last one
as matches, so a hit is exact to the token.

The index holds a reference on each of its blocks. Rows that hit take references of their own, and
a shared block is copied before it is written (kv/blocks.py), so nothing a row does changes what
is stored. Everything here runs on the engine thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from stoker.cache.node import Node, path_to
from stoker.cache.policy import Retention, eviction_order
from stoker.kv.blocks import BlockPool


@dataclass(frozen=True, slots=True)
class Hit:
    """Blocks that hold the first `num_tokens` tokens; the last block may hold more."""

    blocks: list[int]
    num_tokens: int
    from_session: bool = False  # the session's checkpoint led here, without a search


class Listener(Protocol):
    """Who wants to know what the index keeps and lets go: the disk tier. It is told of the namespace
    "" only, the model without adapters."""

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
    """At most `max_blocks` blocks, over all namespaces. When there are more, what no session points
    at leaves first, and of that what `retention` says."""

    def __init__(
        self, pool: BlockPool, *, block_size: int, max_blocks: int, retention: Retention = "lru"
    ) -> None:
        self.max_blocks = max_blocks
        self.listener: Listener | None = None
        self.on_drop: Callable[[Node, Node], None] = lambda node, parent: None
        self._pool = pool
        self._block_size = block_size
        self._roots: dict[str, Node] = {}
        # Every node is in one of these. A node that is preferred has only preferred ancestors, so
        # the others can always go first, leaves before inner nodes.
        self._plain = eviction_order(retention, block_size)
        self._preferred = eviction_order(retention, block_size)

    def __len__(self) -> int:
        """Blocks held."""
        return len(self._plain) + len(self._preferred)

    @property
    def num_preferred(self) -> int:
        """Blocks on the way to some session's checkpoint."""
        return len(self._preferred)

    def find(self, tokens: Sequence[int], *, namespace: str = "", known: Node | None = None) -> Hit:
        """The longest stored prefix of `tokens`. Takes no reference; use it at once.

        `known` is a stored node that may lie on the way: when it does, the walk begins there.
        """
        tokens = tuple(tokens)
        path = self._verified(known, tokens)
        from_session = bool(path)
        if path and len(path[-1].tokens) < self._block_size:
            path.pop()  # a neighbour of this leaf may hold more
        node = path[-1] if path else self._roots.get(namespace)
        num_tokens = node.end if node else 0
        while node is not None and num_tokens < len(tokens):
            child, length = node.best_child(tokens[num_tokens : num_tokens + self._block_size])
            if child is None:
                break
            path.append(child)
            num_tokens += length
            node = child if length == self._block_size else None
        for node in path:
            node.num_reused += min(node.end, num_tokens) - node.start
        self._touch(path)
        return Hit([node.block for node in path], num_tokens, from_session)

    def publish(
        self,
        tokens: Sequence[int],
        blocks: Sequence[int],
        *,
        namespace: str = "",
        after: Node | None = None,
    ) -> Node | None:
        """Remembers that `blocks` hold `tokens`; what is already known is not stored again. The last
        node of what is stored, None when that is nothing.

        `after` is what an earlier call returned for the beginning of the same tokens.
        """
        if not tokens:
            return None
        if after is not None and after.is_stored and len(after.tokens) == self._block_size:
            path, node = path_to(after), after
        else:
            path, node = [], self._root(namespace)
        for start in range(node.end, len(tokens), self._block_size):
            part = tuple(tokens[start : start + self._block_size])
            child, length = node.best_child(part)
            if child is None or length < len(part):
                child = self._store(node, part, blocks[start // self._block_size], child, length)
            path.append(child)
            node = child
        self._touch(path)
        if self.listener is not None and not namespace:
            self.listener.published(path, tokens, blocks)
        self.reclaim(len(self) - self.max_blocks)
        return next((node for node in reversed(path) if node.is_stored), None)

    def prefer(self, new: Node | None, instead_of: Node | None) -> None:
        """A session's checkpoint is now `new` and no longer `instead_of` (None: nowhere)."""
        old = instead_of
        while new is not old:
            if new is not None and (old is None or new.start >= old.start):
                self._mark(new, 1)
                new = _above(new)
            else:
                assert old is not None
                self._mark(old, -1)
                old = _above(old)

    def touch(self, node: Node) -> None:
        """As a hit on the path to `node` would."""
        self._touch(path_to(node))

    def reclaim(self, num_blocks: int) -> int:
        """Lets go of up to `num_blocks` blocks; returns how many became free. Blocks that a row is
        using stay in memory, so they count only as let go."""
        freed = 0
        while num_blocks > 0 and len(self):
            node = (self._plain if len(self._plain) else self._preferred).first()
            freed += self._evict(node)
            num_blocks -= 1
        return freed

    def release_pending(self) -> bool:
        """When nothing is left to reclaim: memory that waits for a write, if there is any."""
        return self.listener is not None and self.listener.release_pending()

    def demote(self, before: float) -> int:
        """Lets go of everything last used before that monotonic time; returns how many blocks."""
        idle = [node for node in self._leaves() if node.used_at < before]
        count = 0
        while idle:
            node = idle.pop()
            parent = node.parent
            self._evict(node)
            count += 1
            if parent is not None and parent.is_stored and not parent.children and parent.used_at < before:
                idle.append(parent)
        return count

    def unsaved_leaves(self) -> list[Node]:
        return [node for node in self._leaves() if not node.saved and not node.namespace]

    def clear(self) -> None:
        self.reclaim(len(self))

    def _verified(self, known: Node | None, tokens: tuple[int, ...]) -> list[Node]:
        """The path to `known` if it holds a prefix of `tokens`, else an empty one."""
        if known is None or not known.is_stored or known.end > len(tokens):
            return []
        path = path_to(known)
        return path if all(tokens[node.start : node.end] == node.tokens for node in path) else []

    def _leaves(self) -> list[Node]:
        return [node for node in chain(self._plain, self._preferred) if not node.children]

    def _root(self, namespace: str) -> Node:
        if namespace not in self._roots:
            self._roots[namespace] = Node((), -1, None, namespace=namespace)
        return self._roots[namespace]

    def _store(
        self, parent: Node, part: tuple[int, ...], block: int, known: Node | None, length: int
    ) -> Node:
        """A new child, replacing a leaf that holds only the beginning of the same tokens."""
        self._pool.retain([block])
        child = Node(part, block, parent, parent.end, namespace=parent.namespace)
        parent.add(child)
        self._plain.use(child)
        if known is not None and length == len(known.tokens):
            self._drop(known)
        return child

    def _evict(self, node: Node) -> bool:
        """True when that freed memory."""
        if self.listener is not None and not node.namespace:
            self.listener.evicting(node)
        frees = not self._pool.is_shared(node.block)
        self._drop(node)
        return frees

    def _drop(self, node: Node) -> None:
        parent = node.parent
        assert parent is not None
        assert not node.children
        parent.remove(node)
        (self._preferred if node.num_sessions else self._plain).remove(node)
        self._pool.release([node.block])
        self.on_drop(node, parent)
        node.parent = None
        if parent.parent is None and not parent.children:
            del self._roots[parent.namespace]

    def _mark(self, node: Node, change: int) -> None:
        was_preferred = node.num_sessions > 0
        node.num_sessions += change
        if (node.num_sessions > 0) != was_preferred:
            left, joined = (self._preferred, self._plain) if was_preferred else (self._plain, self._preferred)
            left.remove(node)
            joined.use(node)

    def _touch(self, path: Sequence[Node]) -> None:
        now = time.monotonic()
        for node in reversed(path):  # children first, so that parents outlive them
            node.used_at = now
            (self._preferred if node.num_sessions else self._plain).use(node)


def _above(node: Node) -> Node | None:
    """The parent, unless that is a root."""
    parent = node.parent
    return parent if parent is not None and parent.parent is not None else None
