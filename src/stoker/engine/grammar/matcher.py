"""One row's place in its grammar, and the mask of the tokens that may come next.

`accept` follows every generated token on the engine thread and starts the next mask in a helper
thread, so that it is computed while the model runs; `mask` waits for it just before sampling.
The state follows the generated tokens, never the KV cache, so a preempted row needs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor, Future

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from stoker.engine.grammar.prelude import Prelude
from stoker.engine.grammar.reasons import reason_in

Mask = NDArray[np.uint32]  # one bit per token, the lowest bit of a word first


class RowMatcher:
    """`matcher` is this row's own and `first_mask` what it allows at its start.

    Not thread-safe: one thread calls it. A grammar that cannot be followed further (its limits on
    time and memory) sets `failure`; the masks then mean nothing.
    """

    def __init__(
        self,
        matcher: LLMatcher,
        first_mask: Mask,
        eos_ids: Iterable[int],
        workers: Executor,
        prelude: Prelude | None = None,
    ) -> None:
        self.failure: str | None = None
        self.is_complete = False  # the text is in the grammar and nothing can follow
        self._matcher = matcher
        self._workers = workers
        self._eos_ids = tuple(eos_ids)
        self._prelude = prelude
        self._mask = first_mask.copy()
        self._allow_end()
        self._pending: Future[None] | None = None

    def accept(self, token_id: int) -> None:
        """`token_id` is the row's next token; not for one that ends the reply."""
        if self._prelude is not None and self._prelude.takes(token_id):
            if self._prelude.is_over:
                self._prelude = None
            return
        self._prelude = None
        self._wait()
        if not self._matcher.consume_token(token_id):
            self._fail()
            return
        self.is_complete = bool(self._matcher.is_stopped())
        if not self.is_complete:
            self._pending = self._workers.submit(self._compute)

    def mask(self) -> Mask:
        """Valid until the next `accept`."""
        if self._prelude is not None:
            return self._prelude.mask(self._mask)
        self._wait()
        return self._mask

    def forced_tokens(self) -> list[int]:
        """Tokens that must come next, perhaps none: what filling without sampling would append.
        Each must still be accepted."""
        if self._prelude is not None:
            return []
        self._wait()
        return list(self._matcher.compute_ff_tokens())

    def _wait(self) -> None:
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def _compute(self) -> None:
        self._matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        if self._matcher.is_error():
            self._fail()
        else:
            self._allow_end()

    def _allow_end(self) -> None:
        """The tokens that end a reply are allowed where the text so far is complete."""
        if self._matcher.is_accepting():
            for token_id in self._eos_ids:
                self._mask[token_id >> 5] |= np.uint32(1 << (token_id & 31))

    def _fail(self) -> None:
        self.failure = reason_in(self._matcher.get_error())
