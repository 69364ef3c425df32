"""The form of the decoder's matrices.

Fast: int8 in groups on the native kernels, activations two planes of int8 (16 bits): at one row 2.5 times as
fast as float16 weights, 0.5 % off them; the rounding of activations adds nothing to that. Faithful, or where
those kernels are missing: float32.
"""

from __future__ import annotations

import torch

from stoker.kernels import native
from stoker.kernels.fill import blocks
from stoker.kernels.linear import DenseLinear, PackedLinear, pack
from stoker.kernels.packed import PackedQuantizedLinear
from stoker.kernels.quantized import ScaleOverflow, Weight, as_dense
from stoker.kernels.source import MatrixSource, QuantizedForm
from stoker.kernels.storage import LargePages
from stoker.models.quantize import group_size_for, quantize

_PLANES = 2


class Packing:
    """What several matrices have in common. Several threads may pack at once."""

    def __init__(self, device: torch.device, *, faithful: bool) -> None:
        self.memory = LargePages()
        self._device = device
        self._native = not faithful and device.type == "cpu" and native.library() is not None

    def __call__(self, source: MatrixSource) -> PackedLinear:
        rows, columns = source.shape
        if not self._native:
            dense = DenseLinear((rows, columns), torch.float32, self._device)
            dense.store(0, as_dense(source.read(0, rows)))
            return dense
        group_size = group_size_for(columns)
        if isinstance(source.form, torch.dtype) and group_size is not None:
            form = QuantizedForm(8, group_size, torch.float16)
            packed = PackedQuantizedLinear((rows, columns), form, planes=_PLANES, allocate=self.memory)
            try:
                for first, last in blocks(source):
                    packed.store_quantizing(first, as_dense(source.read(first, last)))
                    source.release(first, last)
            except ScaleOverflow:
                return self._pack(quantize(as_dense(source.read(0, rows)), 8, group_size))
            return packed
        return self._pack(source.read(0, rows))

    def _pack(self, weight: Weight) -> PackedLinear:
        return pack(weight, torch.float32, self._device, int8_planes=_PLANES)
