"""Matrices packed for the native kernels, group-quantized or dense.

The packed form interleaves sixteen output rows (native/qlinear.h), replaces the plain one and is
never kept beside it. Activations are float32 in and out.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace

import torch

from stoker.kernels import native
from stoker.kernels.quantized import QuantizedTensor, ScaleOverflow, Weight, cast_scales
from stoker.kernels.source import Form, QuantizedForm
from stoker.kernels.storage import Allocate, plain

TILE = 16  # output rows in a record
SCALAR_TYPES = {torch.float32: native.F32, torch.float16: native.F16, torch.bfloat16: native.BF16}


class PackedMatrix:
    """PackedLinear on the CPU; the subclasses say how `store` fills `data`.

    planes  How activations are rounded before a product with a quantized matrix.
            0: not at all; products equal the dequantized matrix's to float32 rounding.
            1: to int8 in blocks of at most 32 columns.
            2: to 16 bits: the rounding error is multiplied too, or, where that is faster
               (native/qlinear16.cpp), whole 16-bit codes.
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
        self.element = element
        self.nbytes = data.nbytes
        self.planes = planes
        self.matrix = native.QMatrix(*shape, bits, group_size, SCALAR_TYPES[element], 0, data.data_ptr())
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
    def __init__(
        self, shape: tuple[int, int], form: QuantizedForm, *, planes: int, allocate: Allocate = plain
    ) -> None:
        self._form = form
        self._allocate = allocate
        num_rows, num_columns = shape
        record = TILE * (form.group_size * form.bits // 8 + 2 * form.scale_dtype.itemsize)
        size = -(-num_rows // TILE) * (num_columns // form.group_size) * record
        super().__init__(
            shape,
            allocate(size),
            bits=form.bits,
            group_size=form.group_size,
            element=form.scale_dtype,
            planes=planes,
        )

    def store(self, first: int, block: Weight) -> None:
        assert isinstance(block, QuantizedTensor)
        codes = block.codes.contiguous()
        scales, biases = (
            cast_scales(part, self.element).contiguous() for part in (block.scales, block.biases)
        )
        self._library.stoker_qpack(
            self.pointer, first, codes.shape[0], codes.data_ptr(), scales.data_ptr(), biases.data_ptr()
        )

    def store_quantizing(self, first: int, block: torch.Tensor) -> None:
        """`store` of models/quantize.py's `quantize` of a dense block, in one pass and with no copy in
        between. The form is 8 bits with float16 scales; raises ScaleOverflow where those are too narrow."""
        assert self._form.bits == 8
        assert self.element == torch.float16
        block = block.contiguous()
        kind = SCALAR_TYPES[block.dtype]
        if not self._library.stoker_qpack_dense(self.pointer, first, block.shape[0], block.data_ptr(), kind):
            raise ScaleOverflow("the weights' scales do not fit torch.float16")

    def widen_scales(self) -> None:
        shape = (self.out_features, self.in_features)
        form = replace(self._form, scale_dtype=torch.float32)
        PackedQuantizedLinear.__init__(self, shape, form, planes=self.planes, allocate=self._allocate)


class PackedDenseLinear(PackedMatrix):
    """A float32, float16 or bfloat16 matrix in its own precision; products are in float32."""

    def __init__(self, shape: tuple[int, int], dtype: torch.dtype, *, allocate: Allocate = plain) -> None:
        num_rows, num_columns = shape
        num_tiles = -(-num_rows // TILE)
        data = allocate(num_tiles * num_columns * TILE * dtype.itemsize)
        self._tiles = data.view(dtype).view(num_tiles, num_columns, TILE)
        super().__init__(
            shape,
            self._tiles,
            bits=8 * dtype.itemsize,
            group_size=num_columns,
            element=dtype,
            planes=0,
        )

    def store(self, first: int, block: Weight) -> None:
        assert isinstance(block, torch.Tensor)
        whole, rest = divmod(block.shape[0], TILE)
        into = self._tiles[first // TILE :]
        into[:whole] = block[: whole * TILE].view(whole, TILE, self.in_features).transpose(1, 2)
        if rest:
            into[whole, :, :rest] = block[whole * TILE :].T

    def widen_scales(self) -> None:
        raise AssertionError("a dense matrix has no scales")


def can_pack(shape: tuple[int, int], form: Form, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the native kernels handle such a matrix here, with activations of `dtype`."""
    if native.library() is None or device.type != "cpu" or dtype != torch.float32:
        return False
    if isinstance(form, torch.dtype):
        return form in SCALAR_TYPES
    return (
        form.scale_dtype in SCALAR_TYPES
        and form.group_size in (16, 32, 64, 128)
        and shape[1] % form.group_size == 0
    )
