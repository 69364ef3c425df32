"""Matrices in the form they are multiplied in: dense, or quantized in groups.

`pack` takes a checkpoint's weight and returns a `PackedLinear`. Quantized weights stay
quantized; no dense copy is kept beside them. This file holds the torch implementations,
which the native ones (packed.py) are tested against.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F

from stoker.kernels.packed import PackedDenseLinear, PackedQuantizedLinear, can_pack
from stoker.kernels.quantized import QuantizedTensor, Weight

# Rows dequantized at a time, so that a large vocabulary never exists densely.
_BLOCK_ELEMENTS = 4 * 1024 * 1024


class PackedLinear(Protocol):
    """y = x @ W.T for a fixed W of shape [N, K]."""

    out_features: int  # N
    in_features: int  # K
    nbytes: int  # memory held

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """x [M, K] -> [M, N], same dtype as x."""
        ...

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows of W (an embedding look-up): int64 [n] -> [n, K] in the compute dtype."""
        ...


class DenseLinear:
    """W kept in the compute dtype."""

    def __init__(self, weight: torch.Tensor) -> None:
        self.weight = weight
        self.out_features, self.in_features = weight.shape
        self.nbytes = weight.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        return self.weight[ids]


class GroupQuantizedLinear:
    """W kept as codes, scales and biases; dequantized block by block when multiplied."""

    def __init__(self, weight: QuantizedTensor, dtype: torch.dtype) -> None:
        self.weight = weight
        self.dtype = dtype
        self.out_features, self.in_features = weight.shape
        self.nbytes = weight.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        step = max(1, _BLOCK_ELEMENTS // self.in_features)
        if step >= self.out_features:
            return F.linear(x, self.weight.dequantize(x.dtype))
        out = x.new_empty(x.shape[0], self.out_features)
        for first in range(0, self.out_features, step):
            block = slice_rows(self.weight, slice(first, first + step)).dequantize(x.dtype)
            out[:, first : first + block.shape[0]] = F.linear(x, block)
        return out

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        return slice_rows(self.weight, ids).dequantize(self.dtype)


def slice_rows(weight: QuantizedTensor, rows: slice | torch.Tensor) -> QuantizedTensor:
    """The same matrix with only some output rows (a view for a slice)."""
    return QuantizedTensor(
        weight.codes[rows], weight.scales[rows], weight.biases[rows], weight.bits, weight.group_size
    )


def concat(weights: Sequence[Weight]) -> Weight | None:
    """The matrices stacked along the output dimension, or None when their kinds differ.
    Lets a family fuse Q, K and V, or gate and up, into one product."""
    first = weights[0]
    if isinstance(first, torch.Tensor):
        if all(isinstance(w, torch.Tensor) and w.dtype == first.dtype for w in weights):
            return torch.cat([w for w in weights if isinstance(w, torch.Tensor)])
        return None
    parts = [w for w in weights if isinstance(w, QuantizedTensor)]
    alike = {(w.bits, w.group_size, w.scales.dtype) for w in parts}
    if len(parts) != len(weights) or len(alike) != 1:
        return None
    return QuantizedTensor(
        torch.cat([w.codes for w in parts]),
        torch.cat([w.scales for w in parts]),
        torch.cat([w.biases for w in parts]),
        first.bits,
        first.group_size,
    )


def pack(
    weight: Weight, dtype: torch.dtype, device: torch.device | str = "cpu", *, int8_planes: int = 0
) -> PackedLinear:
    """The fastest form of `weight` on this device for activations of `dtype`.

    int8_planes  how the native CPU kernels may round activations (packed.py); 0 = not at all.
    """
    device = torch.device(device)
    if can_pack(weight, dtype, device):
        if isinstance(weight, torch.Tensor):
            return PackedDenseLinear(weight)
        return PackedQuantizedLinear(weight, planes=int8_planes)
    if isinstance(weight, torch.Tensor):
        return DenseLinear(weight.to(device=device, dtype=dtype))
    moved = QuantizedTensor(
        weight.codes.to(device),
        weight.scales.to(device),
        weight.biases.to(device),
        weight.bits,
        weight.group_size,
    )
    return GroupQuantizedLinear(moved, dtype)
