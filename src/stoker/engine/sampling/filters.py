"""The distribution one row draws from: temperature, top-k, top-p, min-p, XTC, in this order.

Each filter sees what the ones before it left, renormalised. Weights are probabilities up to a
common factor, the most likely token having 1; only the draw needs their sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stoker.core import SamplingParams
from stoker.engine.sampling.selection import largest, nucleus
from stoker.engine.sampling.types import Floats, Ints

# Beyond these a draw is the argmax, or uniform, to float32 precision.
MIN_TEMPERATURE = 1e-6
MAX_TEMPERATURE = 1e6

# Tokens lighter than exp(-NEAR) = 2e-9 are mere dust around a nucleus: a vocabulary of 262 144
# of them weighs 5e-4 of the most likely token.
NEAR = 20.0


@dataclass(frozen=True, slots=True)
class Candidates:
    """Tokens that may be drawn."""

    weights: Floats  # not negative, not all 0; may live in the scratch space
    ids: Ints | None  # token id of each weight, ascending; None = weight i is of token i

    def keep(self, chosen: Ints) -> Candidates:
        """Those at the indices `chosen`."""
        return Candidates(self.weights[chosen], chosen if self.ids is None else self.ids[chosen])

    def token_at(self, index: int) -> int:
        return index if self.ids is None else int(self.ids[index])


def candidates(logits: Floats, peak: float, params: SamplingParams, scratch: Floats) -> Candidates:
    """What temperature, top-k, top-p and min-p leave of a row.

    `logits` [V] are not changed; `peak` is their largest and finite. `scratch` [V] is
    overwritten, and may hold the result.
    """
    temperature = min(max(params.temperature, MIN_TEMPERATURE), MAX_TEMPERATURE)
    if 0 < params.top_k < len(logits):
        ids = largest(logits, params.top_k)
        kept = Candidates(_weights(logits[ids], peak, temperature, scratch), ids)
        if _uses_top_p(params):
            kept = kept.keep(nucleus(kept.weights, params.top_p)[0])
    elif _uses_top_p(params):
        kept = _full_nucleus(logits, peak, temperature, params.top_p, scratch)
    elif params.min_p > 0:
        # The same test as below, on the logits: spares the exponentials of the others.
        ids = (logits >= peak + temperature * math.log(params.min_p)).nonzero()[0]
        kept = Candidates(_weights(logits[ids], peak, temperature, scratch), ids)
    else:
        kept = Candidates(_weights(logits, peak, temperature, scratch), None)
    if params.min_p > 0:
        kept = kept.keep((kept.weights >= params.min_p).nonzero()[0])
    return kept


def _uses_top_p(params: SamplingParams) -> bool:
    return 0.0 < params.top_p < 1.0


def _full_nucleus(
    logits: Floats, peak: float, temperature: float, mass: float, scratch: Floats
) -> Candidates:
    """Top-p of a whole vocabulary, from the tokens near the peak alone where that is certain."""
    is_near = logits >= peak - temperature * NEAR
    num_far = len(logits) - int(np.count_nonzero(is_near))
    if num_far > len(logits) // 2:  # else there is little to gain
        ids = is_near.nonzero()[0]
        near = Candidates(_weights(logits[ids], peak, temperature, scratch), ids)
        chosen, spare = nucleus(near.weights, mass)
        # The far tokens could only raise the total, and by no more than this.
        if spare >= mass * num_far * math.exp(-NEAR):
            return near.keep(chosen)
    everything = Candidates(_weights(logits, peak, temperature, scratch), None)
    return everything.keep(nucleus(everything.weights, mass)[0])


def exclude_top_choices(kept: Candidates, threshold: float, exempt: Ints) -> Candidates:
    """XTC: drop every token more likely than `threshold`, except the least likely of those.

    Tokens of `exempt` (end of sequence, newline) are never dropped, but count as one of those.
    """
    above = kept.weights > threshold * kept.weights.sum(dtype=np.float64)
    if np.count_nonzero(above) < 2:
        return kept
    dropped = kept.weights > kept.weights[above].min()
    if kept.ids is None:
        dropped[exempt[exempt < len(dropped)]] = False
    else:
        dropped &= ~np.isin(kept.ids, exempt)
    return kept.keep((~dropped).nonzero()[0])


def _weights(logits: Floats, peak: float, temperature: float, scratch: Floats) -> Floats:
    """exp((logits - peak) / temperature), in `scratch`."""
    out = scratch[: len(logits)]
    np.subtract(logits, np.float32(peak), out=out)
    np.multiply(out, np.float32(1 / temperature), out=out)
    return np.exp(out, out=out)
