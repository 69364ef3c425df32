"""Whisper's decoder: text tokens over an encoded window, with cached keys and values.

Legend: T tokens of a step, R rows (hypotheses), S encoder positions, W width, H heads, D head size.
Self-attention lives in paged rows, so that beams share what they have in common. All rows of a window attend
to the same encoder positions; they are laid out as one token with R query heads per key head, so that these
keys and values are read once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from stoker.kernels.affine import Affine, affine
from stoker.kernels.linear import PackedLinear
from stoker.kernels.quantized import as_dense
from stoker.kernels.source import MatrixSource
from stoker.kv.base import LayerSpec, RowSpan
from stoker.kv.blocks import BLOCK_SIZE, BlockTable
from stoker.kv.paged import PagedKV
from stoker.kv.paged_native import NativePagedKV, paged_kv
from stoker.speech.whisper.checkpoint import WhisperCheckpoint
from stoker.speech.whisper.encoder import Norm
from stoker.speech.whisper.native_step import Caches, native_step, store_keys_values
from stoker.speech.whisper.packing import Packing

_PREFIX = "model.decoder."
EMBEDDING = f"{_PREFIX}embed_tokens.weight"
_MAX_GROUP = 64  # query heads per key head in one attention call


@dataclass(frozen=True, slots=True)
class Linear:
    """A packed matrix with its bias."""

    matrix: PackedLinear
    bias: torch.Tensor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self.matrix(x).add_(self.bias)

    @property
    def nbytes(self) -> int:
        return self.matrix.nbytes + self.bias.nbytes


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    attention_norm: Norm
    qkv: Linear
    out: Linear
    cross_norm: Norm
    cross_q: Linear
    cross_kv: Affine  # applied to a whole window at once
    cross_out: Linear
    mlp_norm: Norm
    up: Linear
    down: Linear


class Decoder:
    """Weights and arithmetic. What belongs to a window is in `Window`.

    faithful  every matrix dense in float32, products by torch; otherwise int8 on the native kernels, where
              there are any, with keys and values in float16.
    """

    def __init__(
        self,
        checkpoint: WhisperCheckpoint,
        device: torch.device,
        *,
        faithful: bool,
        packing: Packing,
        embedding: Callable[[], PackedLinear],  # asked for when all else is there
        pool: Executor,  # that helps to build it
    ) -> None:
        self.dims = checkpoint.dims
        self._device = device
        self._faithful = faithful
        self.cache_dtype = torch.float32 if faithful or device.type != "cpu" else torch.float16
        self._packing = packing
        layers = pool.map(partial(self._layer, checkpoint), range(self.dims.text_layers))
        self._positions = checkpoint.dense(f"{_PREFIX}embed_positions.weight").to(device)  # [text_ctx, W]
        self._layers = list(layers)
        self._embedding = embedding()
        self._norm = self._read_norm(checkpoint, "layer_norm")
        head_dim = self.dims.width // self.dims.text_heads
        self.layer_specs = [LayerSpec(self.dims.text_heads, head_dim)] * self.dims.text_layers
        self.scale = head_dim**-0.5
        # None = by torch, layer by layer.
        self.native = native_step(
            self._layers, self._embedding, self._positions, self._norm, num_heads=self.dims.text_heads
        )
        self.nbytes = self._embedding.nbytes + self._positions.nbytes
        for layer in self._layers:
            self.nbytes += sum(getattr(layer, name).nbytes for name in DecoderLayer.__slots__)

    def _read_norm(self, checkpoint: WhisperCheckpoint, name: str) -> Norm:
        weight, bias = (checkpoint.dense(f"{_PREFIX}{name}.{leaf}") for leaf in ("weight", "bias"))
        return Norm(weight.to(self._device), bias.to(self._device))

    def _linear(self, checkpoint: WhisperCheckpoint, name: str) -> Linear:
        matrix = self._packing(checkpoint.matrix(f"{_PREFIX}{name}.weight"))
        return Linear(matrix, checkpoint.dense(f"{_PREFIX}{name}.bias").to(self._device))

    def _layer(self, checkpoint: WhisperCheckpoint, index: int) -> DecoderLayer:
        name = f"layers.{index}."
        own, own_bias = checkpoint.stacked(f"{_PREFIX}{name}self_attn", ("q_proj", "k_proj", "v_proj"))
        cross, cross_bias = checkpoint.stacked(f"{_PREFIX}{name}encoder_attn", ("k_proj", "v_proj"))
        return DecoderLayer(
            self._read_norm(checkpoint, f"{name}self_attn_layer_norm"),
            Linear(self._packing(own), own_bias.to(self._device)),
            self._linear(checkpoint, f"{name}self_attn.out_proj"),
            self._read_norm(checkpoint, f"{name}encoder_attn_layer_norm"),
            self._linear(checkpoint, f"{name}encoder_attn.q_proj"),
            self._cross(cross, cross_bias),
            self._linear(checkpoint, f"{name}encoder_attn.out_proj"),
            self._read_norm(checkpoint, f"{name}final_layer_norm"),
            self._linear(checkpoint, f"{name}fc1"),
            self._linear(checkpoint, f"{name}fc2"),
        )

    def _cross(self, weight: MatrixSource, bias: torch.Tensor) -> Affine:
        products = torch.float32 if self._faithful else torch.int16
        dense: torch.Tensor | MatrixSource = weight
        if self._device.type != "cpu":
            dense, bias = as_dense(weight.read(0, weight.shape[0])).to(self._device), bias.to(self._device)
        return affine(dense, bias, products, on_team=True, memory=self._packing.memory)

    def cross(self, audio: torch.Tensor) -> CrossCache:
        """audio [S, W] -> its keys and values in every layer."""
        cache = CrossCache(self, audio.shape[0])
        for index, layer in enumerate(self._layers):
            cache.store(index, layer.cross_kv(audio))
        return cache

    def forward(
        self,
        ids: Sequence[int],
        positions: torch.Tensor,  # int64 [T]
        own: PagedKV,
        plan: Any,
        cross: CrossCache,
        observe: dict[int, list[torch.Tensor]] | None = None,
    ) -> torch.Tensor:
        """Hidden states [T, W] before the vocabulary. `observe` receives the cross-attention scores
        [H, T, S], before their softmax, of the layers it has keys for."""
        num_tokens, width = len(ids), self.dims.width
        heads = (num_tokens, self.dims.text_heads, -1)
        x = self._embedding.rows(torch.tensor(ids, dtype=torch.int64, device=self._device))
        x = x + self._positions[positions]
        for index, layer in enumerate(self._layers):
            q, k, v = layer.qkv(layer.attention_norm(x)).view(num_tokens, 3, *heads[1:]).unbind(1)
            mixed = own.attend(index, q, k, v, plan, scale=self.scale)
            x = x + layer.out(mixed.reshape(num_tokens, width))
            q = layer.cross_q(layer.cross_norm(x)).view(heads)
            if observe is not None and index in observe:
                observe[index].append(cross.scores(index, q, self.scale))
            x = x + layer.cross_out(cross.attend(index, q, self.scale).reshape(num_tokens, width))
            x = x + layer.down(F.gelu(layer.up(layer.mlp_norm(x))))
        return self._norm(x)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self._embedding(hidden)


class CrossCache:
    """Keys and values of one encoded window, in every layer."""

    def __init__(self, decoder: Decoder, num_positions: int) -> None:
        self.num_positions = num_positions
        num_blocks = -(-num_positions // BLOCK_SIZE)
        self._kv = paged_kv(
            decoder.layer_specs, num_blocks=num_blocks, dtype=decoder.cache_dtype, device=decoder._device
        )
        self._rest = num_positions % BLOCK_SIZE
        row = self._kv.new_row()
        self._kv.reserve(row, num_positions)
        # The layout appends before it attends: the last position is appended again, unchanged.
        self.plan = self._kv.plan([RowSpan(row, num_positions - 1, 1)])
        self._last: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.caches = native_caches(self._kv, decoder.scale)
        self._whole = self._kv.plan([RowSpan(row, 0, num_positions)])

    def store(self, layer: int, kv: torch.Tensor) -> None:
        """kv [S, 2W]: keys, then values."""
        keys, values = self._kv.keys[layer], self._kv.values[layer]
        num_blocks, num_heads, head_dim, _ = keys.shape
        width, whole = num_heads * head_dim, self.num_positions // BLOCK_SIZE
        last_k, last_v = kv[-1].view(2, 1, num_heads, head_dim).unbind(0)
        self._last.append((last_k, last_v))
        if self.caches is not None:
            store_keys_values(kv, layer, self.caches, self._whole)
            return
        k, v = kv[:, :width].T, kv[:, width:]
        # Rounded first, moved then: what moves is half as large, and in runs that stay together.
        k, v = k.to(keys.dtype), v.to(values.dtype)
        key_rows = keys.view(num_blocks, width, BLOCK_SIZE)
        for first, last_block, columns in ((0, whole, BLOCK_SIZE), (whole, num_blocks, self._rest)):
            if first == last_block:
                continue
            part = slice(first * BLOCK_SIZE, first * BLOCK_SIZE + (last_block - first) * columns)
            count = last_block - first
            key_rows[first:last_block, :, :columns] = (
                k[:, part].reshape(width, count, columns).transpose(0, 1)
            )
            split = v[part].reshape(count, columns, num_heads, head_dim)
            values[first:last_block, :, :columns] = split.transpose(1, 2)

    def attend(self, layer: int, q: torch.Tensor, scale: float) -> torch.Tensor:
        """q [T, H, D] -> [T, H, D]; every token sees every position."""
        parts = [self._attend(layer, part, scale) for part in torch.split(q, _MAX_GROUP)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _attend(self, layer: int, q: torch.Tensor, scale: float) -> torch.Tensor:
        num_tokens, num_heads, head_dim = q.shape
        grouped = q.transpose(0, 1).reshape(1, num_heads * num_tokens, head_dim)
        out = self._kv.attend(layer, grouped, *self._last[layer], self.plan, scale=scale)
        return out.view(num_heads, num_tokens, head_dim).transpose(0, 1)

    def scores(self, layer: int, q: torch.Tensor, scale: float) -> torch.Tensor:
        """[H, T, S]."""
        keys = self._kv.keys[layer].permute(1, 2, 0, 3).flatten(2)[..., : self.num_positions]  # [H, D, S]
        return torch.matmul(q.transpose(0, 1) * scale, keys.float())


def native_caches(kv: PagedKV, scale: float) -> Caches | None:
    return Caches(kv, scale) if isinstance(kv, NativePagedKV) else None


class Window:
    """The hypotheses of one window: rows that began with the same prompt."""

    def __init__(self, decoder: Decoder, cross: CrossCache, max_rows: int) -> None:
        self._decoder = decoder
        self._cross = cross
        # One block more per row: a fork copies its tail before the row it came from is freed.
        per_row = -(-decoder.dims.text_ctx // BLOCK_SIZE) + 1
        self._kv = paged_kv(
            decoder.layer_specs,
            num_blocks=2 * per_row * max_rows,
            dtype=decoder.cache_dtype,
            device=decoder._device,
        )
        self._caches = native_caches(self._kv, decoder.scale)
        self.rows: list[BlockTable] = []
        self.num_tokens = 0  # in every row

    def begin(self, ids: Sequence[int], observe: dict[int, list[torch.Tensor]] | None = None) -> torch.Tensor:
        """One row with `ids` as its beginning -> their hidden states [T, W]."""
        for row in self.rows:
            self._kv.free(row)
        row = self._kv.new_row()
        self._kv.reserve(row, len(ids))
        plan = self._kv.plan([RowSpan(row, 0, len(ids))])
        self.rows, self.num_tokens = [row], len(ids)
        native, own, cross = self._decoder.native, self._caches, self._cross.caches
        if native is not None and own is not None and cross is not None and observe is None:
            return native.hidden(ids, 0, own, plan, cross, self._cross.plan)
        positions = torch.arange(len(ids), device=self._decoder._device)
        return self._decoder.forward(ids, positions, self._kv, plan, self._cross, observe)

    def step(self, ids: Sequence[int]) -> torch.Tensor:
        """One token more in each row -> logits [R, vocabulary]."""
        for row in self.rows:
            self._kv.reserve(row, self.num_tokens + 1)
        plan = self._kv.plan([RowSpan(row, self.num_tokens, 1) for row in self.rows])
        at = self.num_tokens
        self.num_tokens += 1
        native, own, cross = self._decoder.native, self._caches, self._cross.caches
        if native is not None and own is not None and cross is not None:
            return native.logits(ids, at, own, plan, cross, self._cross.plan)
        positions = torch.full((len(ids),), at, device=self._decoder._device)
        hidden = self._decoder.forward(ids, positions, self._kv, plan, self._cross)
        return self._decoder.logits(hidden)

    def select(self, sources: Sequence[int]) -> None:
        """Row i becomes a continuation of what row sources[i] was; nothing is copied until it differs."""
        unused = set(range(len(self.rows)))
        chosen = []
        for source in sources:
            chosen.append(self.rows[source] if source in unused else self._kv.fork(self.rows[source]))
            unused.discard(source)
        for index in unused:
            self._kv.free(self.rows[index])
        self.rows = chosen
