"""Runs a Decoder's whole step in one native call (kernels/native/decoder.cpp).

A model keeps its torch form (layers/decoder.py), which says what it computes and is what the
native form is tested against; this file only describes it to the kernel. Models with parts the
kernel does not know (experts, unpacked matrices) are left as they are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_float, c_int64
from typing import Any

import torch

from stoker.kernels import decoder as form
from stoker.kernels import native
from stoker.kernels.activations import NATIVE
from stoker.kernels.packed import TILE, PackedMatrix
from stoker.kv.base import KVLayout
from stoker.kv.paged_native import NativePagedKV
from stoker.models.base import CausalLM, StepBatch
from stoker.models.layers.decoder import Decoder, DecoderLayer
from stoker.models.layers.linear import Linear, SideBySide
from stoker.models.layers.mlp import GatedMLP
from stoker.models.layers.norm import RMSNorm
from stoker.models.layers.rope import Rope


class NativeDecoder:
    """Implements CausalLM and FindsLikeliest over a Decoder; falls back to it on a KV layout that is not
    native."""

    def __init__(self, model: Decoder) -> None:
        """Raises Unsuitable when some part of the model is not known to the kernel."""
        library = native.library()
        if library is None or model.dtype != torch.float32:
            raise Unsuitable
        self.model = model
        self.facts = model.facts
        self.nbytes = model.nbytes
        self._step = library.stoker_decoder_step
        self._scratch = library.stoker_scratch_new()
        self._layers = (form.DecoderLayer * len(model.layers))(*map(_layer, model.layers))
        self._ropes = (form.Rope * len(model.ropes))(*map(_rope, model.ropes))
        first = model.layers[0]
        self._decoder = form.Decoder(
            model.norm.weight.shape[0],
            first.attention.num_heads,
            _gate_up(first.mlp)[1],
            len(model.layers),
            self._layers,
            self._ropes,
            len(model.ropes),
            _packed(model.embedding).matrix,
            _norm(model.norm),
            _projection([(model.head, None, 0)]),
            model.embedding_scale,
            model.logit_scale,
            model.logit_softcap or 0.0,
            0,
        )
        self._decoder_pointer = ctypes.addressof(self._decoder)
        if len({layer.attention.num_heads for layer in model.layers}) > 1:
            raise Unsuitable
        self._bound: KVLayout | None = None
        # Kept: memory fresh from the system would be paid for page by page in every step.
        self._logits = torch.empty(0, self.facts.vocab_size)

    def forward(self, batch: StepBatch, kv: KVLayout) -> torch.Tensor:
        if not isinstance(kv, NativePagedKV):
            return self.model.forward(batch, kv)
        count = self._run(batch, kv, None, None)
        return self._logits[:count]

    def forward_likeliest(self, batch: StepBatch, kv: KVLayout) -> list[tuple[int, float]]:
        if not isinstance(kv, NativePagedKV):
            largest = self.model.forward(batch, kv).max(dim=-1)
            return list(zip(largest.indices.tolist(), largest.values.tolist(), strict=True))
        count = len(batch.logits_at)
        best, peaks = (c_int64 * count)(), (c_float * count)()
        self._run(batch, kv, ctypes.addressof(best), ctypes.addressof(peaks))
        return list(zip(best, peaks, strict=True))

    def _run(self, batch: StepBatch, kv: NativePagedKV, best: int | None, peaks: int | None) -> int:
        """Fills `_logits`; returns how many rows."""
        if self._bound is not kv:
            self._bind(kv)
        count = len(batch.logits_at)
        if count > self._logits.shape[0]:
            self._logits = torch.empty(count, self.facts.vocab_size)
        step = form.DecoderStep(
            len(batch.token_ids),
            count,
            batch.token_ids.buffer_info()[0],
            batch.positions.buffer_info()[0],
            batch.logits_at.buffer_info()[0],
            batch.plan.pointer,
            self._logits.data_ptr(),
            best,
            peaks,
        )
        self._step(native.team(), self._scratch, self._decoder_pointer, ctypes.addressof(step))
        return count

    def _bind(self, kv: NativePagedKV) -> None:
        for layer, described, cache in zip(self.model.layers, self._layers, kv.caches, strict=True):
            cache.scale = layer.attention.scale
            cache.softcap = layer.attention.softcap or 0.0
            described.cache = cache
        self._bound = kv

    def __del__(self) -> None:
        library = native.library()
        if library is not None and hasattr(self, "_scratch"):
            library.stoker_scratch_free(self._scratch)


class Unsuitable(Exception):
    """The native decoder cannot run this model."""


def accelerate(model: Decoder) -> CausalLM:
    """The model in its fastest form here."""
    try:
        return NativeDecoder(model)
    except Unsuitable:
        return model


def _layer(layer: DecoderLayer) -> form.DecoderLayer:
    attention = layer.attention
    gate_up, _ = _gate_up(layer.mlp)
    assert isinstance(layer.mlp, GatedMLP)  # or _gate_up had refused
    q_norm, k_norm = attention.projection_norms or (None, None)
    activation = NATIVE.get(layer.mlp.activation)
    if activation is None:
        raise Unsuitable
    return form.DecoderLayer(
        attention_norm=_norm(layer.attention_norm),
        attention_post_norm=_norm(layer.attention_post_norm),
        mlp_norm=_norm(layer.mlp_norm),
        mlp_post_norm=_norm(layer.mlp_post_norm),
        head_norm=_norm(attention.head_norm),
        q_norm=_norm(q_norm),
        k_norm=_norm(k_norm),
        qkv=_projection(_stacked(attention.qkv)),
        output=_projection(_stacked(attention.output)),
        gate_up=gate_up,
        down=_projection(_stacked(layer.mlp.down)),
        rope=-1 if attention.rope is None else attention.rope,
        activation=activation,
        residual_scale=layer.residual_scale,
    )


def _norm(norm: Any) -> form.Norm:
    """An RMSNorm, or nothing where a family only casts or has no norm."""
    if not isinstance(norm, RMSNorm):
        return form.Norm(None, 0.0, 0)
    assert norm.weight.is_contiguous()
    return form.Norm(norm.weight.data_ptr(), norm.eps.item(), 0)


def _rope(rope: Rope) -> form.Rope:
    half = rope.frequencies.shape[0] // 2  # the second half repeats the first
    return form.Rope(rope.frequencies.data_ptr(), half, rope.factor, 0)


PartOf = tuple[Any, torch.Tensor | None, int]  # matrix, bias, first output column


def _stacked(projection: Any) -> list[PartOf]:
    if isinstance(projection, Linear):
        return [(projection.matrix, projection.bias, 0)]
    if not isinstance(projection, SideBySide):
        raise Unsuitable
    parts: list[PartOf] = []
    offset = 0
    for part in projection.parts:
        parts.append((part.matrix, part.bias, offset))
        offset += part.matrix.out_features
    return parts


def _projection(parts: Sequence[PartOf]) -> form.Projection:
    described = form.Projection(num_parts=len(parts))
    if len(parts) > len(described.parts):
        raise Unsuitable
    for i, (matrix, bias, offset) in enumerate(parts):
        packed = _packed(matrix)
        described.parts[i] = form.Part(packed.matrix, None if bias is None else bias.data_ptr(), offset)
        described.planes = max(described.planes, packed.planes)
    return described


def _gate_up(mlp: Any) -> tuple[form.Projection, int]:
    """Gate and up as two matrices, whether the model has them as one or two; and their width."""
    if not isinstance(mlp, GatedMLP):
        raise Unsuitable
    parts = _stacked(mlp.gate_up)
    if len(parts) == 2:
        width = parts[0][0].out_features
        described = _projection(parts)
        described.parts[1].offset = 0
    else:
        matrix, bias, _ = parts[0]
        packed = _packed(matrix)
        width = packed.out_features // 2
        described = _projection(parts * 2)
        described.parts[0].w.n = described.parts[1].w.n = width
        described.parts[1].w.data = packed.data.data_ptr() + width // TILE * packed.tile_bytes
        if bias is not None:
            described.parts[1].bias = bias.data_ptr() + width * bias.itemsize
    if width % TILE:
        raise Unsuitable
    return described, width


def _packed(matrix: Any) -> PackedMatrix:
    if not isinstance(matrix, PackedMatrix):
        raise Unsuitable
    return matrix
