"""Takes forbidden tokens out of a row of logits."""

from __future__ import annotations

import math

import numpy as np

from stoker.engine.sampling.types import Bits, Floats

# What the eight bits of a byte add to eight logits. Looking bytes up and adding takes a tenth of the time of
# assigning through a boolean mask, which is slow where allowed tokens lie scattered.
_TABLE = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), 0, -math.inf
).astype(np.float32)


def forbid(logits: Floats, allowed: Bits) -> None:
    """Sets the logits [V] of tokens without a bit to minus infinity. Tokens past the end of `allowed` are
    the padding of an embedding matrix, and forbidden; bits past V are ignored. The largest logit must be
    finite."""
    penalties = _TABLE.take(allowed.astype("<u4", copy=False).view(np.uint8), axis=0).reshape(-1)
    shared = min(len(penalties), len(logits))
    logits[:shared] += penalties[:shared]
    logits[shared:] = -math.inf
