"""Finding the largest values of a long array without sorting it.

A vocabulary has up to 262 144 entries and a sort of it costs more than a small model's step;
the functions here read it a few times with vector instructions and sort only what is left.
(`compress` instead of a boolean index: on an irregular mask it is five times as fast.)
Where equal values compete for the last places, the lowest ids win.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stoker.engine.sampling.types import Floats, Ints

BLOCK = 64  # values behind one maximum in `largest`
FEW = 1024  # sorting this many costs less than dividing them further
ONE_BUCKET = 0x3F80  # upper half of the bits of 1.0
PIECE = 32_768


def largest(values: Floats, count: int) -> Ints:
    """Ids of the `count` largest of `values` [V], ascending by id. 1 <= count; no NaN."""
    if count >= len(values):
        return np.arange(len(values))
    candidates = values
    # `count` blocks with a maximum of at least x hold `count` values of at least x, so the
    # count-th largest block maximum bounds the answer from below.
    blocks = len(values) // BLOCK
    if blocks > 2 * count:
        maxima = values[: blocks * BLOCK].reshape(BLOCK, blocks).max(axis=0)
        candidates = np.compress(values >= np.partition(maxima, -count)[-count], values)
    floor = np.partition(candidates, -count)[-count]
    return _at_or_above(values, floor, count)


def nucleus(weights: Floats, mass: float) -> tuple[Ints, float]:
    """Ids of the fewest, largest weights that hold `mass` of their total, ascending by id, and
    the weight they hold beyond that.

    `weights` [V] lie in [0, 1], `mass` in (0, 1). This is top-p (Holtzman et al. 2019).
    """
    total = float(weights.sum(dtype=np.float64))
    missing = mass * total
    num_in = 0
    # A model's few likely tokens, those above the mean, nearly always hold enough.
    undecided = np.compress(weights >= total / len(weights), weights)
    if float(undecided.sum(dtype=np.float64)) < missing:
        undecided = weights
    if len(undecided) > FEW:
        # Buckets go in whole from the top, until the last.
        mass_from_top = _mass_by_bucket(undecided)[::-1].cumsum()
        num_whole = _first_reaching(mass_from_top, missing)
        last_bucket = len(mass_from_top) - 1 - num_whole
        if num_whole:
            missing -= float(mass_from_top[num_whole - 1])
        bounds = np.array([last_bucket << 16, (last_bucket + 1) << 16], dtype=np.uint32)
        lowest, next_lowest = bounds.view(np.float32)
        num_in = int(np.count_nonzero(undecided >= next_lowest))
        undecided = np.compress((undecided >= lowest) & (undecided < next_lowest), undecided)
    ranked = np.sort(undecided)[::-1]
    running_sum = ranked.cumsum(dtype=np.float64)
    last = _first_reaching(running_sum, missing)
    spare = float(running_sum[last]) - missing
    return _at_or_above(weights, ranked[last], num_in + last + 1), spare


def _mass_by_bucket(weights: Floats) -> NDArray[np.float64]:
    """Sum of the weights that share the upper 16 bits, by the number these bits make.

    Floats from 0 up order like their bits, and those in a bucket differ by less than 1 %.
    """
    masses = np.zeros(ONE_BUCKET + 1)
    # In pieces that fit the processor's cache: temporaries of full length cost more than the sums.
    for start in range(0, len(weights), PIECE):
        piece = weights[start : start + PIECE]
        buckets = (piece.view(np.uint32) >> 16).astype(np.int64)
        masses += np.bincount(buckets, weights=piece.astype(np.float64), minlength=len(masses))
    return masses


def _first_reaching(running_sum: NDArray[np.float64], amount: float) -> int:
    """Index of the first sum of at least `amount`, or of all there is where rounding asks for more."""
    return int(running_sum.searchsorted(min(amount, float(running_sum[-1]))))


def _at_or_above(values: Floats, floor: np.float32, count: int) -> Ints:
    """Ids of the `count` largest, given that `floor` is the count-th largest."""
    ids = (values >= floor).nonzero()[0]
    surplus = len(ids) - count
    if surplus:
        tied = (values[ids] == floor).nonzero()[0]
        ids = np.delete(ids, tied[-surplus:])
    return ids
