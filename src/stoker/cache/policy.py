"""Which stored block leaves first: two orders with one shape, and the choice between them.

An order is told of every use of a path with the deepest node first, and must give a node only after
all its descendants. Both do: a use of a node is a use of its ancestors, so these never come before
it.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from typing import Literal, Protocol

from stoker.cache.node import Node

Retention = Literal["lru", "cost-size"]

# Stale entries a heap may carry for each live one before it is built anew.
_STALE_SHARE = 2


class EvictionOrder(Protocol):
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Node]: ...
    def use(self, node: Node) -> None:
        """The node was stored or lent just now; it is added when new."""
        ...

    def remove(self, node: Node) -> None: ...
    def first(self) -> Node:
        """The node to let go of first. There is one."""
        ...


class LeastRecentlyUsed:
    def __init__(self) -> None:
        self._nodes: OrderedDict[Node, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def use(self, node: Node) -> None:
        self._nodes[node] = None
        self._nodes.move_to_end(node)

    def remove(self, node: Node) -> None:
        del self._nodes[node]

    def first(self) -> Node:
        return next(iter(self._nodes))


class CostSize:
    """By the tokens a block has saved for each token of room it takes, ageing.

    Every block takes the same room, so a block's worth is 1 + reused tokens / tokens in a block. A
    block's rank is its worth on top of the rank of the last one that left, so that old merits fade
    (dynamic ageing of GreedyDual-Size: Cherkasova 1998).
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._age = 0.0
        self._uses = 0
        self._ranks: dict[Node, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, Node]] = []  # may hold ranks that no longer count

    def __len__(self) -> int:
        return len(self._ranks)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._ranks)

    def use(self, node: Node) -> None:
        self._uses += 1  # among equals the one used first leaves first
        rank = (self._age + 1 + node.num_reused / self._block_size, self._uses)
        self._ranks[node] = rank
        if len(self._heap) > _STALE_SHARE * len(self._ranks) + 64:
            self._heap = [(*rank, node) for node, rank in self._ranks.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (*rank, node))

    def remove(self, node: Node) -> None:
        del self._ranks[node]

    def first(self) -> Node:
        while True:
            rank, use, node = self._heap[0]
            if self._ranks.get(node) == (rank, use):
                self._age = max(self._age, rank)
                return node
            heapq.heappop(self._heap)


def eviction_order(retention: Retention, block_size: int) -> EvictionOrder:
    return CostSize(block_size) if retention == "cost-size" else LeastRecentlyUsed()
