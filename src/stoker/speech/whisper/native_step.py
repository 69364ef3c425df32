"""A step of the decoder in one native call (kernels/native/whisper.cpp).

decoder.py's torch form says what is computed, and computes it where this cannot.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from stoker.kernels import native
from stoker.kernels.packed import PackedMatrix
from stoker.kernels.whisper import BiasedMatrix, LayerNorm, WhisperDecoder, WhisperLayer, WhisperStep
from stoker.kv.paged_native import NativePagedKV, NativePlan
from stoker.speech.whisper.search import likeliest

if TYPE_CHECKING:
    from stoker.kernels.linear import PackedLinear
    from stoker.speech.whisper.decoder import DecoderLayer
    from stoker.speech.whisper.encoder import Norm

_MOST_CHOSEN = 64  # kMostChosen in native/likeliest.cpp
_NORMS = ("attention_norm", "cross_norm", "mlp_norm")
_MATRICES = ("qkv", "out", "cross_q", "cross_out", "up", "down")


class Caches:
    """One layout's keys and values in every layer, as the kernel wants them."""

    def __init__(self, kv: NativePagedKV, scale: float) -> None:
        self._kv = kv  # keeps what they point to
        self._caches = (native.LayerCache * len(kv.caches))(*kv.caches)
        for cache in self._caches:
            cache.scale = scale
        self.pointer = ctypes.addressof(self._caches)

    def of_layer(self, layer: int) -> int:
        return self.pointer + layer * ctypes.sizeof(native.LayerCache)


class NativeStep:
    """Points into the decoder's weights, which must live as long."""

    def __init__(
        self,
        layers: Sequence[DecoderLayer],
        embedding: PackedMatrix,
        positions: torch.Tensor,
        norm: Norm,
        *,
        num_heads: int,
    ) -> None:
        library = native.library()
        assert library is not None
        self._library = library
        self._layers = (WhisperLayer * len(layers))()
        for into, layer in zip(self._layers, layers, strict=True):
            for name in _NORMS:
                setattr(into, name, _norm(getattr(layer, name)))
            for name in _MATRICES:
                linear = getattr(layer, name)
                setattr(into, name, _matrix(linear.matrix, linear.bias))
        self._vocabulary, self._width = embedding.out_features, embedding.in_features
        assert positions.is_contiguous()
        self._decoder = WhisperDecoder(
            self._width,
            num_heads,
            len(layers),
            self._layers,
            positions.data_ptr(),
            _norm(norm),
            _matrix(embedding, None),
        )

    def hidden(
        self, ids: Sequence[int], first: int, own: Caches, rows: NativePlan, cross: Caches, window: NativePlan
    ) -> torch.Tensor:
        """Tokens of one row, at positions from `first` on -> hidden states [T, W] before the vocabulary."""
        out = torch.empty(len(ids), self._width)
        self._run(ids, range(first, first + len(ids)), own, rows, cross, window, hidden=out.data_ptr())
        return out

    def logits(
        self, ids: Sequence[int], at: int, own: Caches, rows: NativePlan, cross: Caches, window: NativePlan
    ) -> torch.Tensor:
        """A token of each row, all at position `at` -> logits [R, vocabulary]."""
        out = torch.empty(len(ids), self._vocabulary)
        self._run(ids, [at] * len(ids), own, rows, cross, window, logits=out.data_ptr())
        return out

    def likeliest(self, logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """search.py's `likeliest`, on all of the kernels' threads."""
        num_rows, size = logits.shape
        if count > min(_MOST_CHOSEN, size):
            return likeliest(logits, count)
        logits = logits.contiguous()
        values = torch.empty(num_rows, count)
        tokens = torch.empty(num_rows, count, dtype=torch.int64)
        sums = torch.empty(num_rows, 1)
        self._library.stoker_likeliest(
            native.team(),
            logits.data_ptr(),
            num_rows,
            size,
            count,
            values.data_ptr(),
            tokens.data_ptr(),
            sums.data_ptr(),
        )
        return values - sums, tokens

    def _run(
        self,
        ids: Sequence[int],
        positions: Sequence[int],
        own: Caches,
        rows: NativePlan,
        cross: Caches,
        window: NativePlan,
        *,
        hidden: int | None = None,
        logits: int | None = None,
    ) -> None:
        numbers = np.array([ids, positions], dtype=np.int64)
        base = numbers.ctypes.data
        step = WhisperStep(
            len(ids),
            base,
            base + 8 * len(ids),
            rows.pointer,
            own.pointer,
            window.pointer,
            cross.pointer,
            hidden,
            logits,
        )
        self._library.stoker_whisper_step(
            native.team(), ctypes.addressof(self._decoder), ctypes.addressof(step)
        )


def native_step(
    layers: Sequence[DecoderLayer],
    embedding: PackedLinear,
    positions: torch.Tensor,
    norm: Norm,
    *,
    num_heads: int,
) -> NativeStep | None:
    """None where the weights are not in the kernels' own form."""
    matrices = [getattr(layer, name).matrix for layer in layers for name in _MATRICES]
    if not isinstance(embedding, PackedMatrix) or not all(isinstance(m, PackedMatrix) for m in matrices):
        return None
    if embedding.in_features // num_heads % 8 or any(m.out_features % 8 for m in matrices):
        return None
    return NativeStep(layers, embedding, positions, norm, num_heads=num_heads)


def store_keys_values(kv: torch.Tensor, layer: int, cross: Caches, whole: NativePlan) -> None:
    """kv [S, 2W], keys and then values, into a layer of a window's cache; `whole` plans all positions."""
    library = native.library()
    assert library is not None
    assert kv.is_contiguous()
    library.stoker_whisper_append(native.team(), whole.pointer, cross.of_layer(layer), kv.data_ptr())


def _norm(norm: Norm) -> LayerNorm:
    assert norm.weight.dtype == norm.bias.dtype == torch.float32
    return LayerNorm(norm.weight.data_ptr(), norm.bias.data_ptr())


def _matrix(matrix: PackedMatrix, bias: torch.Tensor | None) -> BiasedMatrix:
    return BiasedMatrix(matrix.matrix, None if bias is None else bias.data_ptr(), matrix.planes, 0)
