"""Linear layers over packed matrices, with bias, and several of them fused into one product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from stoker.kernels.linear import PackedLinear
from stoker.kernels.packed import PackedMatrix


class Projection(Protocol):
    """[T, K] -> [T, N] in the same dtype. What an adapter layer has to look like, too."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...


class Linear:
    """y = x W^T + b."""

    __slots__ = ("bias", "matrix")

    def __init__(self, matrix: PackedLinear, bias: torch.Tensor | None = None) -> None:
        self.matrix = matrix
        self.bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = self.matrix(x)
        return y if self.bias is None else y + self.bias


class SideBySide:
    """Several projections of one input, their outputs concatenated: what remains of a fused
    projection when the matrices are of different kinds and cannot be stacked."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[Linear]) -> None:
        self.parts = tuple(parts)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([part(x) for part in self.parts], dim=-1)


def round_less(projection: Projection) -> None:
    """Where the projection's activations are rounded to int8, multiply the rounding error as well
    (two planes, kernels/packed.py)."""
    parts = projection.parts if isinstance(projection, SideBySide) else (projection,)
    for part in parts:
        if isinstance(part, Linear) and isinstance(part.matrix, PackedMatrix) and part.matrix.planes:
            part.matrix.planes = 2
