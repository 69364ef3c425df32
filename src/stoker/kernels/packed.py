"""Matrices packed for the native kernels, group-quantized or dense.

The packed form interleaves sixteen output rows (native/qlinear.h), replaces the plain one and is
never kept beside it. Activations are float32 in and out.
"""

from __future__ import annotations

import ctypes

import torch

from stoker.kernels import native
from stoker.kernels.quantized import QuantizedTensor, Weight

TILE = 16  # output rows in a record
_SCALAR_TYPES = {torch.float32: native.F32, torch.float16: native.F16, torch.bfloat16: native.BF16}
# Rows packed at a time: bounds what exists twice while a large matrix is converted.
_ROWS_PER_ROUND = 8192


class PackedMatrix:
    """PackedLinear on the CPU; the subclasses fill `data`.

    planes  How activations are rounded before a product with a quantized matrix.
            0: not at all; products equal the dequantized matrix's to float32 rounding.
            1: to int8 in blocks of at most 32 columns.
            2: the rounding error is multiplied too, which gives about 16 bits.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        data: torch.Tensor,
        *,
        bits: int,
        group_size: int,
        element: torch.dtype,  # of scales and biases, or of a dense matrix itself
        planes: int,
    ) -> None:
        library = native.library()
        assert library is not None
        self._library = library
        self.out_features, self.in_features = shape
        self.data = data
        self.nbytes = data.nbytes
        self.planes = planes
        self.matrix = native.QMatrix(*shape, bits, group_size, _SCALAR_TYPES[element], 0, data.data_ptr())
        self.pointer = ctypes.addressof(self.matrix)

    @property
    def tile_bytes(self) -> int:
        """Size of sixteen output rows."""
        return self.nbytes // -(-self.out_features // TILE)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty(x.shape[0], self.out_features)
        if x.shape[0]:
            team = native.team()
            self._library.stoker_qlinear(
                team, self.pointer, x.data_ptr(), x.shape[0], out.data_ptr(), self.planes
            )
        return out

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        ids = ids.contiguous()
        out = torch.empty(ids.shape[0], self.in_features)
        self._library.stoker_qrows(self.pointer, ids.data_ptr(), ids.shape[0], out.data_ptr())
        return out


class PackedQuantizedLinear(PackedMatrix):
    def __init__(self, weight: QuantizedTensor, *, planes: int) -> None:
        num_rows, num_columns = weight.shape
        groups = num_columns // weight.group_size
        record = TILE * (weight.group_size * weight.bits // 8 + 2 * weight.scales.dtype.itemsize)
        super().__init__(
            weight.shape,
            torch.empty(-(-num_rows // TILE) * groups * record, dtype=torch.uint8),
            bits=weight.bits,
            group_size=weight.group_size,
            element=weight.scales.dtype,
            planes=planes,
        )
        for first in range(0, num_rows, _ROWS_PER_ROUND):
            rows = slice(first, min(first + _ROWS_PER_ROUND, num_rows))
            codes, scales, biases = (
                part[rows].contiguous() for part in (weight.codes, weight.scales, weight.biases)
            )
            self._library.stoker_qpack(
                self.pointer, first, rows.stop - first, codes.data_ptr(), scales.data_ptr(), biases.data_ptr()
            )


class PackedDenseLinear(PackedMatrix):
    """A float32, float16 or bfloat16 matrix in its own precision; products are in float32."""

    def __init__(self, weight: torch.Tensor) -> None:
        num_rows, num_columns = weight.shape
        tiles = -(-num_rows // TILE)
        data = torch.zeros(tiles, num_columns, TILE, dtype=weight.dtype)
        for first in range(0, num_rows, _ROWS_PER_ROUND):
            block = weight[first : first + _ROWS_PER_ROUND]
            whole = block.shape[0] // TILE
            into = data[first // TILE :]
            into[:whole] = block[: whole * TILE].view(whole, TILE, num_columns).transpose(1, 2)
            rest = block[whole * TILE :]
            if rest.shape[0]:
                into[whole, :, : rest.shape[0]] = rest.T
        super().__init__(
            (num_rows, num_columns),
            data,
            bits=8 * weight.dtype.itemsize,
            group_size=num_columns,
            element=weight.dtype,
            planes=0,
        )


def can_pack(weight: Weight, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the native kernels handle this matrix here, with activations of `dtype`."""
    if native.library() is None or device.type != "cpu" or dtype != torch.float32:
        return False
    if isinstance(weight, torch.Tensor):
        return weight.dtype in _SCALAR_TYPES
    return (
        weight.scales.dtype in _SCALAR_TYPES
        and weight.group_size in (16, 32, 64, 128)
        and weight.shape[1] % weight.group_size == 0
    )
