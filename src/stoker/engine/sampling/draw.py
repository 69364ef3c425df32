"""Drawing an index by its weight: the inverse of the cumulative distribution.

Sums are float64, so that a vocabulary of small weights adds up to what it should.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stoker.engine.sampling.types import Floats

BLOCK = 512


def draw(weights: Floats, uniform: float) -> int:
    """The index whose share of the total weight contains `uniform`, a number in [0, 1).

    `weights` are not negative and not all 0; an index of weight 0 is never drawn. Long arrays
    are summed by blocks first, which spares most of the slow running sum.
    """
    if len(weights) <= BLOCK:
        edges = weights.cumsum(dtype=np.float64)
        return _cell(edges, uniform * float(edges[-1]))
    whole = len(weights) // BLOCK * BLOCK
    blocks = weights[:whole].reshape(-1, BLOCK).sum(axis=1, dtype=np.float64)
    edges = np.append(blocks, weights[whole:].sum(dtype=np.float64)).cumsum()
    point = uniform * float(edges[-1])
    block = _cell(edges, point)
    if block:
        point -= float(edges[block - 1])
    inside = weights[block * BLOCK : (block + 1) * BLOCK].cumsum(dtype=np.float64)
    return block * BLOCK + _cell(inside, point)


def _cell(edges: NDArray[np.float64], point: float) -> int:
    """Index of the first edge beyond `point`, or, where rounding put the point at or past the
    last edge, of the last cell that is not empty."""
    index = int(edges.searchsorted(point, side="right"))
    return index if index < len(edges) else int(edges.searchsorted(edges[-1]))
