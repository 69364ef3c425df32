"""Activation functions by the names Hugging Face configs use, and the native kernels' numbers for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F

Activation = Callable[[torch.Tensor], torch.Tensor]

_TANH: Activation = partial(F.gelu, approximate="tanh")

FUNCTIONS: dict[str, Activation] = {
    "silu": F.silu,
    "swish": F.silu,
    "gelu": F.gelu,
    "gelu_pytorch_tanh": _TANH,
    "gelu_new": _TANH,
    "relu": F.relu,
}

# Activation in native/activation.h.
NATIVE: dict[Activation, int] = {F.silu: 0, _TANH: 1, F.gelu: 2, F.relu: 3}
NATIVE_NONE = -1
