"""One block of a stored sequence, and its place in the tree of them. No tensors, no decisions."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Node:
    """Its tokens follow its parent's. A root has neither tokens nor a block."""

    tokens: tuple[int, ...]  # of this block; fewer than a block only in a leaf
    block: int
    parent: Node | None  # None in a root, and in a node that has left the tree
    start: int = 0  # position of its first token in the sequence
    children: dict[tuple[int, ...], Node] = field(default_factory=dict)  # by all their tokens
    num_sessions: int = 0  # sessions whose checkpoint is this node or a descendant
    namespace: str = ""
    used_at: float = 0.0  # monotonic seconds
    saved: bool = False  # on disk or on its way there
    num_reused: int = 0  # tokens of this block that hits have lent out, in total
    _sorted: list[tuple[int, ...]] = field(default_factory=list)  # the children's tokens

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)

    @property
    def is_stored(self) -> bool:
        return self.parent is not None

    def add(self, child: Node) -> None:
        self.children[child.tokens] = child
        insort(self._sorted, child.tokens)

    def remove(self, child: Node) -> None:
        del self.children[child.tokens]
        del self._sorted[bisect_left(self._sorted, child.tokens)]

    def best_child(self, part: tuple[int, ...]) -> tuple[Node | None, int]:
        """The child sharing most tokens with `part` (at most a block of them), and how many.

        A whole block is one look-up. Otherwise the best is a neighbour of `part` in sorted order,
        however many children there are.
        """
        exact = self.children.get(part)
        if exact is not None:
            return exact, len(part)
        at = bisect_left(self._sorted, part)
        best, longest = None, 0
        for tokens in self._sorted[max(0, at - 1) : at + 1]:
            length = common_length(tokens, part)
            if length > longest:
                best, longest = self.children[tokens], length
        return best, longest


def path_to(node: Node) -> list[Node]:
    """The nodes from the first block to `node`, the root left out."""
    path: list[Node] = []
    while node.parent is not None:
        path.append(node)
        node = node.parent
    path.reverse()
    return path


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    """Tokens that both begin with."""
    length = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        length += 1
    return length
