"""Takes forbidden tokens out of a row of logits."""

from __future__ import annotations

import math

import numpy as np

from stoker.engine.sampling.types import Bits, Floats


def forbid(logits: Floats, allowed: Bits) -> None:
    """Sets the logits [V] of tokens without a bit to minus infinity. Tokens past the end of `allowed` are
    the padding of an embedding matrix, and forbidden; bits past V are ignored."""
    bits = np.unpackbits((~allowed).astype("<u4", copy=False).view(np.uint8), bitorder="little")
    shared = min(len(bits), len(logits))
    np.copyto(logits[:shared], -math.inf, where=bits[:shared].view(np.bool_))
    logits[shared:] = -math.inf
