"""The plain form of a group-quantized matrix: what formats produce and kernels pack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class QuantizedTensor:
    """A matrix kept in affine groups along its input dimension: w = code * scale + bias.

    Legend: N output rows, K input columns, G = K / group_size.

    codes   uint8, [N, K/2] when bits == 4 (column 2i in the low nibble, 2i+1 in the high one),
            [N, K] when bits == 8. Codes are unsigned; formats with signed codes shift them
            and fold the shift into `biases`.
    scales  [N, G] float16, bfloat16 or float32 (the dtype that holds the format's values)
    biases  [N, G] same dtype as scales
    """

    codes: torch.Tensor
    scales: torch.Tensor
    biases: torch.Tensor
    bits: int  # 4 or 8; other widths are widened to 8 without changing a value
    group_size: int  # 16, 32, 64 or 128

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.codes.shape
        return rows, columns * 2 if self.bits == 4 else columns

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.scales.nbytes + self.biases.nbytes

    def dequantize(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """The dense [N, K] matrix, computed in float32 and rounded once to `dtype`."""
        rows, columns = self.shape
        codes = self.codes
        if self.bits == 4:
            codes = torch.stack((codes & 15, codes >> 4), dim=-1).reshape(rows, columns)
        grouped = codes.reshape(rows, -1, self.group_size).float()
        dense = grouped * self.scales.float()[..., None] + self.biases.float()[..., None]
        return dense.reshape(rows, columns).to(dtype)


Weight = torch.Tensor | QuantizedTensor


def as_dense(weight: Weight) -> torch.Tensor:
    """The matrix without groups, in a float type."""
    return weight if isinstance(weight, torch.Tensor) else weight.dequantize()


def slice_rows(weight: Weight, rows: slice | torch.Tensor) -> Weight:
    """The same matrix with only some output rows (a view for a slice)."""
    if isinstance(weight, torch.Tensor):
        return weight[rows]
    return QuantizedTensor(
        weight.codes[rows], weight.scales[rows], weight.biases[rows], weight.bits, weight.group_size
    )


def concat(parts: Sequence[Weight]) -> Weight:
    """Matrices of one kind stacked along the output dimension; the widest scales win."""
    if len(parts) == 1:
        return parts[0]
    dense = [part for part in parts if isinstance(part, torch.Tensor)]
    if dense:
        return torch.cat(dense)
    quantized = [part for part in parts if isinstance(part, QuantizedTensor)]
    return QuantizedTensor(
        torch.cat([part.codes for part in quantized]),
        torch.cat([part.scales for part in quantized]),
        torch.cat([part.biases for part in quantized]),
        quantized[0].bits,
        quantized[0].group_size,
    )


class ScaleOverflow(ValueError):
    """A scale or bias is too large for the dtype that was to hold it."""


def cast_scales(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`values` in `dtype`, which must be their own or float32. Raises ScaleOverflow."""
    if values.dtype == dtype:
        return values
    if dtype != torch.float32:
        raise ScaleOverflow(f"{values.dtype} scales do not fit {dtype}")
    return values.float()
