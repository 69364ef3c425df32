"""The array types of this package. V is the vocabulary size throughout."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Bits = NDArray[
    np.uint32
]  # one bit per token, the lowest bit of a word first; may be shorter or longer than V
