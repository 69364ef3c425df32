"""Matrices in the form they are multiplied in: dense, or quantized in groups.

`allocate` makes an empty one of the fastest form here, kernels/fill.py fills it block by block,
`pack` does both with a weight in memory. Quantized weights stay quantized; no dense copy is kept
beside them. This file holds the torch implementations, which the native ones (packed.py) are
tested against.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F

from stoker.kernels.packed import PackedDenseLinear, PackedQuantizedLinear, can_pack
from stoker.kernels.quantized import QuantizedTensor, Weight, cast_scales, slice_rows
from stoker.kernels.source import Form, QuantizedForm, form_of

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

    def store(self, first: int, block: Weight) -> None:
        """Sets the rows from `first` on, a multiple of sixteen; only W's last block may have a number of
        rows that is not. Different blocks may be stored by several threads at once. Raises
        ScaleOverflow when the block has wider scales than the form said."""
        ...

    def widen_scales(self) -> None:
        """Begins again, empty, with float32 scales. Only before the matrix is used."""
        ...


class DenseLinear:
    """W kept in the compute dtype."""

    def __init__(self, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> None:
        self.weight = torch.empty(shape, dtype=dtype, device=device)
        self.out_features, self.in_features = shape
        self.nbytes = self.weight.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight)

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        return self.weight[ids]

    def store(self, first: int, block: Weight) -> None:
        assert isinstance(block, torch.Tensor)
        self.weight[first : first + block.shape[0]] = block

    def widen_scales(self) -> None:
        raise AssertionError("a dense matrix has no scales")


class GroupQuantizedLinear:
    """W kept as codes, scales and biases; dequantized block by block when multiplied."""

    def __init__(
        self, shape: tuple[int, int], form: QuantizedForm, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.weight = _empty(shape, form, device)
        self.dtype = dtype
        self.out_features, self.in_features = shape
        self.nbytes = self.weight.nbytes

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        step = max(1, _BLOCK_ELEMENTS // self.in_features)
        if step >= self.out_features:
            return F.linear(x, self.weight.dequantize(x.dtype))
        out = x.new_empty(x.shape[0], self.out_features)
        for first in range(0, self.out_features, step):
            block = self._dense(slice(first, first + step), x.dtype)
            out[:, first : first + block.shape[0]] = F.linear(x, block)
        return out

    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        return self._dense(ids, self.dtype)

    def store(self, first: int, block: Weight) -> None:
        assert isinstance(block, QuantizedTensor)
        rows = slice(first, first + block.shape[0])
        self.weight.codes[rows] = block.codes
        self.weight.scales[rows] = cast_scales(block.scales, self.weight.scales.dtype)
        self.weight.biases[rows] = cast_scales(block.biases, self.weight.biases.dtype)

    def widen_scales(self) -> None:
        form = QuantizedForm(self.weight.bits, self.weight.group_size, torch.float32)
        self.weight = _empty(self.weight.shape, form, self.weight.codes.device)
        self.nbytes = self.weight.nbytes

    def _dense(self, rows: slice | torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        part = slice_rows(self.weight, rows)
        assert isinstance(part, QuantizedTensor)
        return part.dequantize(dtype)


def _empty(shape: tuple[int, int], form: QuantizedForm, device: torch.device) -> QuantizedTensor:
    rows, columns = shape
    groups = (rows, columns // form.group_size)
    return QuantizedTensor(
        torch.empty(rows, columns * form.bits // 8, dtype=torch.uint8, device=device),
        torch.empty(groups, dtype=form.scale_dtype, device=device),
        torch.empty(groups, dtype=form.scale_dtype, device=device),
        form.bits,
        form.group_size,
    )


def allocate(
    shape: tuple[int, int],
    form: Form,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
    *,
    int8_planes: int = 0,
) -> PackedLinear:
    """An empty matrix [N, K] for weights of `form`, in the fastest form on this device for activations
    of `dtype`. Its contents are undefined until every row has been stored.

    int8_planes  how the native CPU kernels may round activations (packed.py); 0 = not at all.
    """
    device = torch.device(device)
    if can_pack(shape, form, dtype, device):
        if isinstance(form, torch.dtype):
            return PackedDenseLinear(shape, form)
        return PackedQuantizedLinear(shape, form, planes=int8_planes)
    if isinstance(form, torch.dtype):
        return DenseLinear(shape, dtype, device)
    return GroupQuantizedLinear(shape, form, dtype, device)


def pack(
    weight: Weight, dtype: torch.dtype, device: torch.device | str = "cpu", *, int8_planes: int = 0
) -> PackedLinear:
    """A weight in memory in that form."""
    rows, columns = weight.shape
    packed = allocate((rows, columns), form_of(weight), dtype, device, int8_planes=int8_planes)
    packed.store(0, weight)
    return packed
