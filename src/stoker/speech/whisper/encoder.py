"""Whisper's encoder: a window of mel frames to one vector per 20 ms, in float32.

Legend: S positions (two frames each), W width, H heads, D head size. Weights go by their Hugging Face names.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from stoker.speech.whisper.checkpoint import WhisperCheckpoint

_PREFIX = "model.encoder."


@dataclass(frozen=True, slots=True)
class Affine:
    """A matrix with its bias, or the scale and shift of a normalization."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weight, self.bias)

    def normalize(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self.bias.shape, self.weight, self.bias, 1e-5)

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes + self.bias.nbytes


@dataclass(frozen=True, slots=True)
class EncoderLayer:
    attention_norm: Affine
    qkv: Affine
    out: Affine
    mlp_norm: Affine
    up: Affine
    down: Affine


class Encoder:
    def __init__(self, checkpoint: WhisperCheckpoint, device: torch.device) -> None:
        self._dims = checkpoint.dims
        self._device = device
        self._conv1 = self._affine(checkpoint, "conv1")
        self._conv2 = self._affine(checkpoint, "conv2")
        self._positions = checkpoint.dense(f"{_PREFIX}embed_positions.weight").to(device)  # [S, W]
        self._layers = [self._layer(checkpoint, index) for index in range(self._dims.audio_layers)]
        self._norm = self._affine(checkpoint, "layer_norm")
        parts = [self._conv1, self._conv2, self._norm]
        for layer in self._layers:
            parts += [getattr(layer, name) for name in EncoderLayer.__slots__]
        self.nbytes = self._positions.nbytes + sum(part.nbytes for part in parts)

    def _affine(self, checkpoint: WhisperCheckpoint, name: str) -> Affine:
        weight, bias = (checkpoint.dense(f"{_PREFIX}{name}.{leaf}") for leaf in ("weight", "bias"))
        return Affine(weight.to(self._device), bias.to(self._device))

    def _layer(self, checkpoint: WhisperCheckpoint, index: int) -> EncoderLayer:
        name = f"layers.{index}."
        weights, biases = checkpoint.stacked(f"{_PREFIX}{name}self_attn", ("q_proj", "k_proj", "v_proj"))
        qkv = torch.cat([checkpoint.as_dense(weight) for weight in weights])
        return EncoderLayer(
            self._affine(checkpoint, f"{name}self_attn_layer_norm"),
            Affine(qkv.to(self._device), biases.to(self._device)),
            self._affine(checkpoint, f"{name}self_attn.out_proj"),
            self._affine(checkpoint, f"{name}final_layer_norm"),
            self._affine(checkpoint, f"{name}fc1"),
            self._affine(checkpoint, f"{name}fc2"),
        )

    def __call__(self, mel: torch.Tensor) -> torch.Tensor:
        """mel [num_mels, 2S] -> [S, W]; S may be smaller than the model's own."""
        x = F.gelu(F.conv1d(mel[None].to(self._device), self._conv1.weight, self._conv1.bias, padding=1))
        x = F.gelu(F.conv1d(x, self._conv2.weight, self._conv2.bias, stride=2, padding=1))
        x = x[0].T + self._positions[: x.shape[2]]
        for layer in self._layers:
            x = x + layer.out(self._attend(layer.qkv(layer.attention_norm.normalize(x))))
            x = x + layer.down(F.gelu(layer.up(layer.mlp_norm.normalize(x))))
        return self._norm.normalize(x)

    def _attend(self, qkv: torch.Tensor) -> torch.Tensor:
        num_positions = qkv.shape[0]
        heads = qkv.view(num_positions, 3, self._dims.audio_heads, -1).permute(1, 2, 0, 3)  # [3, H, S, D]
        q, k, v = heads[None].unbind(1)
        mixed = F.scaled_dot_product_attention(q, k, v)  # [1, H, S, D]
        return mixed[0].transpose(0, 1).reshape(num_positions, self._dims.width)
