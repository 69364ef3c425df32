"""Which prefixes the folder holds: an index of segments by the keys before and after their first block.

No files are touched here; whoever looks for the exact extent of a match passes `load`, which reads
a segment's tokens. Thread-safe: the engine thread probes while others read and write.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from stoker.cache.disk.keys import chain, child_key
from stoker.cache.disk.segment import Segment

Load = Callable[[Segment], tuple[int, ...] | None]

_BRANCHES_TRIED = 8  # segments with an uncertain beginning that are looked into at one place


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a match: the first `count` tokens of a segment."""

    segment: Segment
    count: int


class SegmentIndex:
    def __init__(self, root: bytes, block_size: int) -> None:
        self._root = root
        self._block_size = block_size
        self._lock = threading.Lock()
        self._sizes: dict[Segment, int] = {}  # bytes of each file
        self._tokens: dict[Segment, tuple[int, ...]] = {}  # of those whose header was read
        self._by_first: dict[bytes, list[Segment]] = {}
        self._by_parent: dict[bytes, list[Segment]] = {}

    def __len__(self) -> int:
        return len(self._sizes)

    def __contains__(self, segment: object) -> bool:
        return segment in self._sizes

    @property
    def num_bytes(self) -> int:
        with self._lock:
            return sum(self._sizes.values())

    @property
    def longest(self) -> int:
        """Tokens of the longest prefix."""
        with self._lock:
            return max((segment.end for segment in self._sizes), default=0)

    def segments(self) -> list[Segment]:
        with self._lock:
            return list(self._sizes)

    def add(self, segment: Segment, num_bytes: int, tokens: tuple[int, ...] | None = None) -> None:
        with self._lock:
            if segment not in self._sizes:
                self._by_first.setdefault(segment.first, []).append(segment)
                self._by_parent.setdefault(segment.parent, []).append(segment)
            self._sizes[segment] = num_bytes
            if tokens is not None:
                self._tokens[segment] = tokens

    def learn(self, segment: Segment, tokens: tuple[int, ...]) -> None:
        """The tokens of a segment that was indexed by its name alone."""
        with self._lock:
            if segment in self._sizes:
                self._tokens[segment] = tokens

    def discard(self, segment: Segment) -> None:
        with self._lock:
            if self._sizes.pop(segment, None) is None:
                return
            self._tokens.pop(segment, None)
            for table, key in ((self._by_first, segment.first), (self._by_parent, segment.parent)):
                table[key].remove(segment)
                if not table[key]:
                    del table[key]

    def probe(self, tokens: Sequence[int]) -> int:
        """Tokens of the prefix that are surely stored, to a block, without reading any file: a segment
        whose last key fits is taken whole; of one that is only known to begin right, one block."""
        return sum(piece.count for piece in self._follow(tokens, lambda segment: None))

    def reach(self, tokens: Sequence[int]) -> int:
        """Tokens of the prefix that may be stored, without reading any file: all of them when a segment that
        begins right has not been read yet. One that might only share part of a block is not worth a wait."""
        keys = set(chain(self._root, tokens, self._block_size))
        unread: list[Segment] = []
        found = sum(piece.count for piece in self._follow(tokens, unread.append))
        return len(tokens) if any(segment.first in keys for segment in unread) else found

    def find(self, tokens: Sequence[int], load: Load) -> list[Piece]:
        """The longest stored prefix, piece by piece. All but the last piece end at a block's end."""
        return list(self._follow(tokens, load))

    def _follow(self, tokens: Sequence[int], load: Load) -> Iterator[Piece]:
        size, parent, at = self._block_size, self._root, 0
        unfinished: tuple[Piece, int] | None = None  # a piece cut to whole blocks, and its further tokens
        while at < len(tokens):
            best, longest = None, 0
            for segment in self._candidates(parent, tokens, at):
                length = self._common_length(segment, tokens, at, load)
                if length > longest:
                    best, longest = segment, length
            if unfinished is not None:
                piece, further = unfinished
                unfinished = None
                if further >= longest:
                    yield Piece(piece.segment, piece.count + further)
                    return
                yield piece
            if best is None:
                return
            whole = longest - longest % size
            if not whole:
                yield Piece(best, longest)
                return
            parent = (
                best.last if whole == best.count else list(chain(parent, tokens[at : at + whole], size))[-1]
            )
            at += whole
            unfinished = Piece(best, whole), longest - whole
        if unfinished is not None:
            yield unfinished[0]

    def _candidates(self, parent: bytes, tokens: Sequence[int], at: int) -> list[Segment]:
        part = tokens[at : at + self._block_size]
        key = child_key(parent, part)
        with self._lock:
            sure = list(self._by_first.get(key, ()))
            others = self._by_parent.get(parent, ())
            # A segment that begins with a partly filled block may match in part, and so may any when
            # few tokens are left to look for.
            short = len(part) < self._block_size
            uncertain = [s for s in others if (short or s.count < self._block_size) and s.first != key]
        return sure + uncertain[-_BRANCHES_TRIED:]

    def _common_length(self, segment: Segment, tokens: Sequence[int], at: int, load: Load) -> int:
        part = tokens[at : at + segment.count]
        with self._lock:
            known = self._tokens.get(segment)
        if known is None:
            sure = segment.first == child_key(segment.parent, part[: self._block_size])
            if sure and len(part) == segment.count:
                *_, last = chain(segment.parent, part, self._block_size)
                if last == segment.last:
                    return segment.count
            known = load(segment)
            if known is None:
                return min(self._block_size, len(part)) if sure and segment in self._sizes else 0
        return common_length(known, part)


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    if tuple(a) == tuple(b[: len(a)]):
        return len(a)
    length = 0
    for one, other in zip(a, b, strict=False):
        if one != other:
            break
        length += 1
    return length
