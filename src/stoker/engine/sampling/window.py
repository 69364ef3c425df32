"""Which tokens occur among the last few of a sequence, and how often: what penalties look at.

Kept up to date token by token, so that a step costs the distinct tokens of the window and
never a walk through the history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from stoker.engine.sampling.types import Floats, Ints


class TokenWindow:
    """Occurrences of each distinct token among the last `size` tokens; 0 = of all tokens."""

    def __init__(self, size: int, tokens: Sequence[int] = ()) -> None:
        recent = tokens[-size:] if size else tokens
        self._size = size
        self._recent = deque(recent) if size else None
        ids, counts = np.unique(np.asarray(recent, dtype=np.int64), return_counts=True)
        self._used = len(ids)
        # The first `_used` slots are filled; `_slot_of` finds the slot of an id.
        self._ids: Ints = ids
        self._counts: Floats = counts.astype(np.float32)
        self._slot_of = {token_id: slot for slot, token_id in enumerate(ids.tolist())}

    @property
    def ids(self) -> Ints:
        """Distinct token ids, in no order. A view, valid until the next `push`."""
        return self._ids[: self._used]

    @property
    def counts(self) -> Floats:
        """Occurrences of each of `ids`. A view, valid until the next `push`."""
        return self._counts[: self._used]

    def push(self, token_id: int) -> None:
        """Append a token; the oldest leaves when the window is full."""
        if self._recent is not None:
            if len(self._recent) == self._size:
                self._forget(self._recent.popleft())
            self._recent.append(token_id)
        slot = self._slot_of.get(token_id)
        if slot is None:
            self._add(token_id)
        else:
            self._counts[slot] += 1

    def _add(self, token_id: int) -> None:
        slot = self._used
        if slot == len(self._ids):
            capacity = max(32, 2 * slot)
            self._ids = np.resize(self._ids, capacity)
            self._counts = np.resize(self._counts, capacity)
        self._ids[slot] = token_id
        self._counts[slot] = 1
        self._slot_of[token_id] = slot
        self._used += 1

    def _forget(self, token_id: int) -> None:
        slot = self._slot_of[token_id]
        self._counts[slot] -= 1
        if self._counts[slot]:
            return
        # The last slot moves into the gap.
        del self._slot_of[token_id]
        self._used -= 1
        if slot != self._used:
            moved = int(self._ids[self._used])
            self._ids[slot] = moved
            self._counts[slot] = self._counts[self._used]
            self._slot_of[moved] = slot
