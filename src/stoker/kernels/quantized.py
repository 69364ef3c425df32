"""The plain form of a group-quantized matrix: what formats produce and kernels pack."""

from __future__ import annotations

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
