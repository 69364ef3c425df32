"""An encoder's linear layer with what surrounds it: activation(x W^T + b) + residual.

Encoders multiply many rows at once. Decoders, which often have one row, keep their matrices in linear.py's
forms.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from typing import Protocol

import torch
import torch.nn.functional as F

from stoker.kernels import native
from stoker.kernels.activations import NATIVE, NATIVE_NONE, Activation
from stoker.kernels.fill import blocks
from stoker.kernels.packed import SCALAR_TYPES
from stoker.kernels.quantized import as_dense
from stoker.kernels.source import InMemory, MatrixSource
from stoker.kernels.storage import Allocate, plain

_TILE, _BLOCK = 16, 128  # kTile and kBlock in native/int16.cpp


class Affine(Protocol):
    out_features: int  # N
    nbytes: int  # memory held

    def __call__(
        self,
        x: torch.Tensor,
        *,
        activation: Activation | None = None,
        residual: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """x float32 [M, K] -> float32 [M, N]; `residual` is float32 [M, N]."""
        ...


def affine(
    weight: torch.Tensor | MatrixSource,
    bias: torch.Tensor | None,
    dtype: torch.dtype,
    *,
    on_team: bool = False,
    memory: Allocate = plain,
) -> Affine:
    """The layer of `weight` [N, K] and `bias` [N], of any float type, whose products are made in `dtype`. A
    source is read a block of rows at a time.

    dtype    torch.int16: in integers, rounded at a four-thousandth of the largest weight of a row; float32
             where there are no native kernels, or not on the CPU.
    memory   where those integers live
    on_team  whether such integer products use all of the kernels' threads, or the calling one alone
    """
    if dtype == torch.int16:
        on_cpu = not isinstance(weight, torch.Tensor) or weight.device.type == "cpu"
        if native.library() is not None and on_cpu:
            return Int16Affine(weight, bias, on_team=on_team, memory=memory)
        dtype = torch.float32
    if not isinstance(weight, torch.Tensor):
        weight = as_dense(weight.read(0, weight.shape[0]))
    return DenseAffine(weight, bias, dtype)


class DenseAffine:
    """By torch, with the weights in `dtype`."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, dtype: torch.dtype) -> None:
        self.out_features = weight.shape[0]
        self._weight = weight.to(dtype)
        self._bias = None if bias is None else bias.to(dtype)
        self.nbytes = self._weight.nbytes + (0 if bias is None else bias.nbytes)

    def __call__(
        self,
        x: torch.Tensor,
        *,
        activation: Activation | None = None,
        residual: torch.Tensor | None = None,
    ) -> torch.Tensor:
        y = F.linear(x.to(self._weight.dtype), self._weight, self._bias).float()
        if activation is not None:
            y = activation(y)
        return y if residual is None else residual + y


class _Int16Matrix(ctypes.Structure):
    """Int16Matrix in native/int16.cpp."""

    _fields_ = (("n", c_int64), ("k", c_int64), ("codes", c_void_p), ("scales", c_void_p))


class Int16Affine:
    """In 16-bit integers by native/int16.cpp: half of float32's memory and up to twice its speed. The native
    kernels must be there. Several threads may call at once."""

    def __init__(
        self,
        weight: torch.Tensor | MatrixSource,
        bias: torch.Tensor | None,
        *,
        on_team: bool = False,
        memory: Allocate = plain,
    ) -> None:
        library = native.library()
        assert library is not None
        self._library = library
        self._on_team = on_team
        self.out_features, num_columns = weight.shape
        num_rows = -(-self.out_features // _TILE) * _TILE
        columns = -(-num_columns // _BLOCK) * _BLOCK
        self._codes = memory(num_rows * columns * torch.int16.itemsize)
        self._scales = torch.zeros(num_rows)
        self._bias = None if bias is None else bias.float().contiguous()
        self._matrix = _Int16Matrix(*weight.shape, self._codes.data_ptr(), self._scales.data_ptr())
        self._pointer = ctypes.addressof(self._matrix)
        source = InMemory(weight) if isinstance(weight, torch.Tensor) else weight
        for first, last in blocks(source):
            rows = as_dense(source.read(first, last)).contiguous()
            kind = SCALAR_TYPES[rows.dtype]
            library.stoker_int16_pack(self._pointer, first, last - first, rows.data_ptr(), kind)
            source.release(first, last)
        self.nbytes = self._codes.nbytes + self._scales.nbytes + (0 if bias is None else bias.nbytes)

    def __call__(
        self,
        x: torch.Tensor,
        *,
        activation: Activation | None = None,
        residual: torch.Tensor | None = None,
    ) -> torch.Tensor:
        x = x.contiguous()
        residual = None if residual is None else residual.contiguous()
        out = torch.empty(x.shape[0], self.out_features)
        if x.shape[0]:
            self._library.stoker_int16_linear(
                native.team() if self._on_team else None,
                self._pointer,
                x.data_ptr(),
                x.shape[0],
                None if self._bias is None else self._bias.data_ptr(),
                None if residual is None else residual.data_ptr(),
                NATIVE_NONE if activation is None else NATIVE[activation],
                out.data_ptr(),
            )
        return out
