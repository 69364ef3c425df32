"""Which number formats a model runs in: activations, keys and values, rounding in products.

`float32` is the reference mode: everything in float32. `auto` is the fastest that stays as exact
as other servers' defaults (tests/exactness holds it to that).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch

from stoker import machine
from stoker.kernels import native


@dataclass(frozen=True, slots=True)
class Numerics:
    compute: torch.dtype  # activations, and dense weights where there are no native kernels
    kv: torch.dtype  # keys and values in the cache
    int8_planes: int  # rounding of activations in native quantized products (kernels/packed.py)

    def __str__(self) -> str:
        name = str(self.compute).removeprefix("torch.")
        if self.int8_planes:
            name += f", products with quantized weights in int8 x {self.int8_planes}"
        return name if self.kv == self.compute else f"{name}, cache in {str(self.kv).removeprefix('torch.')}"


def choose_numerics(wanted: str, device: str) -> Numerics:
    """`wanted` is the dtype setting: auto, float32, bfloat16 or float16."""
    if wanted != "auto":
        dtype = cast(torch.dtype, getattr(torch, wanted))
        return Numerics(dtype, dtype, 0)
    if device == "cpu" and native.library() is not None:
        return Numerics(torch.float32, torch.float16, 1)
    if device == "cpu":
        fast = machine.multiplies_bfloat16(machine.cpu_features())
        dtype = torch.bfloat16 if fast else torch.float32
    else:
        dtype = torch.float16 if device == "mps" else torch.bfloat16
    return Numerics(dtype, dtype, 0)
