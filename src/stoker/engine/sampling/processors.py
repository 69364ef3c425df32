"""Logits processors: logit_bias, then repetition, presence and frequency penalties.

They change the scores themselves, so log-probabilities report their result; filters, which
only narrow the draw, are in filters.py. Each touches the tokens it is about and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from stoker.core import SamplingParams
from stoker.engine.sampling.types import Floats, Ints
from stoker.engine.sampling.window import TokenWindow

# Edited logits stay within this, so that huge biases and penalties cannot reach float32
# infinity and turn into NaN in a softmax. Anything beyond is certainty or exclusion anyway.
LIMIT = 1e30


class Processors:
    """The processors one row uses, with the token windows they look at."""

    def __init__(self, params: SamplingParams, prompt_ids: Sequence[int]) -> None:
        self._bias_ids, self._bias = _bias_arrays(params.logit_bias)
        self._repetition = max(1 / LIMIT, _clip(params.repetition_penalty))
        self._presence = _clip(params.presence_penalty)
        self._frequency = _clip(params.frequency_penalty)

        windows: dict[int, TokenWindow] = {}

        def window(used: bool, size: int) -> TokenWindow | None:
            if used and size not in windows:
                windows[size] = TokenWindow(size, prompt_ids)
            return windows[size] if used else None

        # A repetition penalty of 0 would divide by zero; like 1 it means off.
        self._repeated = window(params.repetition_penalty not in (0.0, 1.0), params.repetition_context_size)
        self._present = window(self._presence != 0.0, params.presence_context_size)
        self._frequent = window(self._frequency != 0.0, params.frequency_context_size)
        self._windows = tuple(windows.values())

    @property
    def active(self) -> bool:
        return bool(self._windows) or len(self._bias_ids) > 0

    def accept(self, token_id: int) -> None:
        """The row's next token is `token_id`."""
        for window in self._windows:
            window.push(token_id)

    def apply(self, logits: Floats) -> None:
        """Edit one row's logits, [V], in place."""
        if len(self._bias_ids):
            _edit(logits, self._bias_ids, lambda scores, chosen: scores + self._bias[chosen])
        if self._repeated:
            _edit(logits, self._repeated.ids, self._discourage_repetition)
        if self._present:
            _edit(logits, self._present.ids, lambda scores, chosen: scores - self._presence)
        if self._frequent:
            amounts = self._frequent.counts * np.float32(self._frequency)
            _edit(logits, self._frequent.ids, lambda scores, chosen: scores - amounts[chosen])

    def _discourage_repetition(self, scores: Floats, _: slice | Ints) -> Floats:
        """Keskar et al. 2019 (CTRL), with negative scores multiplied so that they fall too."""
        return np.where(scores < 0, scores * self._repetition, scores / self._repetition)


def _edit(logits: Floats, ids: Ints, change: Callable[[Floats, slice | Ints], Floats]) -> None:
    """Replace logits[ids] by change(logits[ids], which of `ids` those are).

    Ids outside the vocabulary are passed over; infinite logits stay as they are.
    """
    chosen: slice | Ints = slice(None)
    if len(ids) and (ids.max() >= len(logits) or ids.min() < 0):
        chosen = np.flatnonzero((ids >= 0) & (ids < len(logits)))
        ids = ids[chosen]
    before = logits[ids]
    with np.errstate(over="ignore"):
        after = np.maximum(np.minimum(change(before, chosen), LIMIT), -LIMIT)
    logits[ids] = np.where(np.isinf(before), before, after)


def _bias_arrays(logit_bias: Mapping[int, float]) -> tuple[Ints, Floats]:
    # Ids beyond int64 name no token of any vocabulary and would not fit the array.
    biased = {i: _clip(bias) for i, bias in logit_bias.items() if 0 <= i < 2**63 and bias != 0}
    return np.array(list(biased), dtype=np.int64), np.array(list(biased.values()), dtype=np.float32)


def _clip(value: float) -> float:
    return max(-LIMIT, min(LIMIT, float(value)))
