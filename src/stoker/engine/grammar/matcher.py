"""One row's place in its grammar: whether a token may come next, and the mask of all that may.

The state follows the generated tokens, never the KV cache, so a preempted row needs nothing. Asking
for one token takes a microsecond or two and a mask up to a thousand times as long, so a mask is made only
for a row that asks for it, see `MaskMaker`.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from stoker.engine.grammar.prelude import Prelude
from stoker.engine.grammar.reasons import reason_in

Mask = NDArray[np.uint32]  # one bit per token, the lowest bit of a word first


class RowMatcher:
    """`matcher` is this row's own and `first_mask` what it allows at its start.

    Not thread-safe: one thread calls it. A grammar that cannot be followed further (its limits on
    time and memory) sets `failure`; answers then mean nothing.
    """

    def __init__(
        self, matcher: LLMatcher, first_mask: Mask, eos_ids: Iterable[int], prelude: Prelude | None = None
    ) -> None:
        self.failure: str | None = None
        self.is_complete = False  # the text is in the grammar and nothing can follow
        self.needed_mask = False  # for the token before this one
        self.pending: Future[None] | None = None  # computes the mask
        self.mask_bytes = first_mask.nbytes
        self._matcher = matcher
        self._eos_ids = tuple(eos_ids)
        self._prelude = prelude
        self._mask: Mask | None = None
        self._asked = False
        self.set_mask(first_mask.copy())

    def accept(self, token_id: int) -> None:
        """`token_id` is the row's next token; not for one that ends the reply."""
        self.needed_mask, self._asked = self._asked, False
        if self._prelude is not None and self._prelude.takes(token_id):
            if self._prelude.is_over:
                self._prelude = None
            return
        self._prelude = None
        self._wait()
        self._mask = None
        if not self._matcher.consume_token(token_id):
            self._fail()
            return
        self.is_complete = bool(self._matcher.is_stopped())

    def allows(self, token_id: int) -> bool:
        """Whether `mask` has the token, without computing one."""
        self._wait()
        if self._mask is not None:
            mask = self._within_prelude(self._mask)
            return token_id >> 5 < len(mask) and bool(int(mask[token_id >> 5]) >> (token_id & 31) & 1)
        if token_id in self._eos_ids and self._matcher.is_accepting():
            return True
        # Where only one text can follow, a mask has the one token that spells it as the model would.
        if forced := self._matcher.compute_ff_tokens():
            return token_id == forced[0]
        return self._matcher.validate_tokens([token_id]) == 1

    def mask(self) -> Mask:
        """Valid until the next `accept`."""
        self._asked = True
        self._wait()
        if self._mask is None:
            mask = np.empty(self.mask_bytes // 4, dtype=np.uint32)
            self._matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
            self._mask = self.set_mask(mask)
        return self._within_prelude(self._mask)

    def _within_prelude(self, mask: Mask) -> Mask:
        return mask if self._prelude is None else self._prelude.mask(mask)

    def forced_tokens(self) -> list[int]:
        """Tokens that must come next, perhaps none: what filling without sampling would append.
        Each must still be accepted."""
        if self._prelude is not None:
            return []
        self._wait()
        return list(self._matcher.compute_ff_tokens())

    # For MaskMaker.

    @property
    def matcher(self) -> LLMatcher:
        return self._matcher

    @property
    def lacks_mask(self) -> bool:
        """And nobody computes it."""
        return self._mask is None and self.pending is None

    def set_mask(self, mask: Mask) -> Mask:
        """`mask` is what the grammar says of the next token. The tokens that end a reply are allowed
        where the text so far is complete."""
        if self._matcher.is_error():
            self._fail()
        elif self._matcher.is_accepting():
            for token_id in self._eos_ids:
                mask[token_id >> 5] |= np.uint32(1 << (token_id & 31))
        self._mask = mask
        return mask

    def _wait(self) -> None:
        if self.pending is not None:
            self.pending.result()
            self.pending = None

    def _fail(self) -> None:
        self.failure = reason_in(self._matcher.get_error())
