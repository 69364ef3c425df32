"""A grammar over characters as a tree: what gbnf.py reads and lark.py writes.

Nodes are compared by identity: the same text in two places may become different terminals.
"""

from __future__ import annotations

from dataclasses import dataclass, field

LAST_CHARACTER = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)

Ranges = tuple[tuple[int, int], ...]  # code points, both ends included


@dataclass(frozen=True, eq=False, slots=True)
class Chars:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True, eq=False, slots=True)
class Ref:
    rule: str


@dataclass(frozen=True, eq=False, slots=True)
class Seq:
    items: list[Node]  # empty: the empty text


@dataclass(frozen=True, eq=False, slots=True)
class Alt:
    items: list[Node]


@dataclass(frozen=True, eq=False, slots=True)
class Repeat:
    item: Node
    low: int
    high: int | None  # None = no limit


Node = Chars | Ref | Seq | Alt | Repeat


@dataclass(slots=True)
class Grammar:
    rules: dict[str, Node]
    root: str
    recursive: frozenset[str] = field(default_factory=frozenset)  # rules that can reach themselves


def children(node: Node) -> list[Node]:
    if isinstance(node, Seq | Alt):
        return node.items
    return [node.item] if isinstance(node, Repeat) else []


def everything_but(ranges: Ranges) -> Ranges:
    kept: list[tuple[int, int]] = []
    at = 0
    for low, high in sorted((*ranges, _SURROGATES)):
        if low > at:
            kept.append((at, low - 1))
        at = max(at, high + 1)
    if at <= LAST_CHARACTER:
        kept.append((at, LAST_CHARACTER))
    return tuple(kept)
