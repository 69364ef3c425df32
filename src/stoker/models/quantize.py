"""Quantize a dense matrix to 4 or 8 bits in affine groups, while it is being loaded.

The grid is MLX's (`mlx.core.quantize`, mode "affine"): a group spans its own minimum to its
maximum in 2^bits - 1 steps, shifted a little so that zero is one of the grid's values.
"""

from __future__ import annotations

from typing import Literal

import torch

from stoker.kernels.source import QuantizedForm
from stoker.models.weights import MatrixSource, QuantizedTensor

GROUP_SIZES = (64, 32)  # in order of preference
_MIN_SCALE = 1e-7  # a group of equal values still needs a step
_BLOCK_ELEMENTS = 64 * 1024  # worked on at a time, so that the float32 copies stay in cache


def group_size_for(columns: int) -> int | None:
    """The group size that divides `columns`, or None when the matrix has to stay dense."""
    return next((size for size in GROUP_SIZES if columns % size == 0), None)


def quantize(
    weight: torch.Tensor,
    bits: Literal[4, 8],
    group_size: int = 64,
    scale_dtype: torch.dtype = torch.float16,
) -> QuantizedTensor:
    """`weight` [N, K] as codes with one scale and bias per group of `group_size` columns.

    Codes are chosen for the scales as stored, so the rounding of `scale_dtype` costs little.
    Where a value is beyond its range, scales and biases become float32. K must be a multiple of
    `group_size`.
    """
    rows, columns = weight.shape
    step = max(1, _BLOCK_ELEMENTS // columns)
    parts = [
        _quantize_block(weight[first : first + step].float(), bits, group_size, scale_dtype)
        for first in range(0, rows, step)
    ]
    codes, scales, biases = (torch.cat(column) for column in zip(*parts, strict=True))
    return QuantizedTensor(codes, scales, biases, bits, group_size)


class Quantizing:
    """A dense source that is quantized as it is read."""

    def __init__(self, dense: MatrixSource, bits: Literal[4, 8], group_size: int) -> None:
        self.shape = dense.shape
        self.form = QuantizedForm(bits, group_size, torch.float16)
        self._dense = dense
        self._bits = bits

    def read(self, first: int, last: int) -> QuantizedTensor:
        rows = self._dense.read(first, last)
        assert isinstance(rows, torch.Tensor)
        return quantize(rows, self._bits, self.form.group_size)

    def release(self, first: int, last: int) -> None:
        self._dense.release(first, last)


def _quantize_block(
    weight: torch.Tensor, bits: int, group_size: int, scale_dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows, columns = weight.shape
    groups = weight.reshape(rows, -1, group_size)  # [N, G, group]
    top_code = (1 << bits) - 1
    low, high = groups.amin(-1), groups.amax(-1)  # [N, G]

    # The end further from zero becomes code 0, the other one the top code; a negative scale
    # counts downwards. Then stretch the step so that zero falls on a whole code.
    low_is_further = low.abs() > high.abs()
    scales = ((high - low) / top_code).clamp_min(_MIN_SCALE)
    scales = torch.where(low_is_further, scales, -scales)
    edge = torch.where(low_is_further, low, high)
    zero_code = (edge / scales).round()
    has_zero = zero_code != 0
    scales = torch.where(has_zero, edge / zero_code, scales)
    biases = torch.where(has_zero, edge, torch.zeros_like(edge))
    if biases.numel() == 0 or biases.abs().max() <= torch.finfo(scale_dtype).max:
        scales, biases = scales.to(scale_dtype), biases.to(scale_dtype)

    codes = ((groups - biases.float()[..., None]) / scales.float()[..., None]).round_()
    codes = codes.clamp_(0, top_code).to(torch.uint8).reshape(rows, columns)
    if bits == 4:
        codes = codes[:, 0::2] | (codes[:, 1::2] << 4)
    return codes, scales, biases
