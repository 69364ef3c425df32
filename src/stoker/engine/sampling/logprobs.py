"""Log-probabilities a response reports: natural logarithm, over the full vocabulary, after the
processors and before temperature, filters and any mask. Always finite and at most 0.
"""

from __future__ import annotations

import math

import numpy as np

from stoker.core import Alternative
from stoker.engine.sampling.selection import largest
from stoker.engine.sampling.types import Floats

# Reported for a token that is impossible, as OpenAI's API does: JSON has no infinity.
LOWEST = -9999.0


class Logprobs:
    """The log-softmax of one row's logits [V], evaluated where it is asked for."""

    def __init__(self, logits: Floats, scratch: Floats) -> None:
        """`scratch` [V] is overwritten. The largest logit must be finite."""
        self._logits = logits
        self._peak = float(logits.max())
        np.subtract(logits, np.float32(self._peak), out=scratch)
        np.exp(scratch, out=scratch)
        self._log_total = math.log(scratch.sum(dtype=np.float64))

    def of(self, token_id: int) -> float:
        # In this order: at 1e30 a peak would swallow the logarithm of the total.
        logprob = float(self._logits[token_id]) - self._peak - self._log_total
        return min(0.0, max(LOWEST, logprob))

    def top(self, count: int) -> tuple[Alternative, ...]:
        """The `count` most likely tokens, most likely first, the lower id first where equal."""
        if count < 1:
            return ()
        found = [Alternative(i, self.of(i)) for i in largest(self._logits, count).tolist()]
        return tuple(
            sorted(found, key=lambda alternative: (-self._logits[alternative.token_id], alternative.token_id))
        )
