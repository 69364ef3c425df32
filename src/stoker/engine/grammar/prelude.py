"""What a reply may say before its grammar starts to hold: a thinking block.

The text is free up to and including a marker such as `</think>`, and cannot end before it. It
either is free from the first token, or only when the first token is the block's opening one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from stoker.engine.grammar.vocabulary import Vocabulary

Mask = NDArray[np.uint32]


class FreeMasks:
    """Masks of one marker, shared by its rows: everything but the tokens that would run past the
    marker, by how many bytes of the marker are there already."""

    def __init__(self, vocabulary: Vocabulary, marker: str, opener: str | None) -> None:
        self.vocabulary = vocabulary
        self.marker = marker.encode()
        self.opener_id = vocabulary.id_of(opener) if opener else None
        self.optional = opener is not None  # the block may be left out
        self._masks: dict[int, Mask] = {}

    def at(self, num_matched: int) -> Mask:
        mask = self._masks.get(num_matched)
        if mask is None:
            mask = np.full(self.vocabulary.size // 32 + 1, 0xFFFFFFFF, dtype=np.uint32)
            for token_id in self.vocabulary.straddlers(self.marker, num_matched):
                clear(mask, token_id)
            self._masks[num_matched] = mask
        return mask


class Prelude:
    def __init__(self, masks: FreeMasks, eos_ids: Iterable[int]) -> None:
        self._masks = masks
        self._eos_ids = tuple(eos_ids)
        self._tail = b""  # the last bytes, as many as the marker could begin in
        self._undecided = masks.optional  # no token yet says whether there is a block
        self.is_over = False

    def takes(self, token_id: int) -> bool:
        """Whether the token is part of the block. False: there is none, the grammar holds."""
        if self._undecided:
            self._undecided = False
            return token_id == self._masks.opener_id
        marker = self._masks.marker
        text = self._tail + self._masks.vocabulary.tokens[token_id]
        self.is_over = marker in text
        self._tail = text[-len(marker) :]
        return True

    def mask(self, grammar: Mask) -> Mask:
        """`grammar` is what the grammar allows at its start."""
        if self._undecided:
            mask = grammar.copy()
            if self._masks.opener_id is not None:
                mask[self._masks.opener_id >> 5] |= np.uint32(1 << (self._masks.opener_id & 31))
            return mask
        mask = self._masks.at(self._num_matched()).copy()
        for token_id in self._eos_ids:
            clear(mask, token_id)
        return mask

    def _num_matched(self) -> int:
        marker = self._masks.marker
        return next((n for n in range(len(marker) - 1, 0, -1) if self._tail.endswith(marker[:n])), 0)


def clear(mask: Mask, token_id: int) -> None:
    mask[token_id >> 5] &= np.uint32(0xFFFFFFFF ^ (1 << (token_id & 31)))
