"""Whisper's encoder: a window of mel frames to one vector per 20 ms.

Legend: S positions (two frames each), W width, H heads, D head size. Weights go by their Hugging Face names.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from stoker.kernels.affine import Affine, affine
from stoker.speech.whisper.checkpoint import WhisperCheckpoint

_PREFIX = "model.encoder."


@dataclass(frozen=True, slots=True)
class Shaped:
    """Weight and bias of a convolution or a normalization."""

    weight: torch.Tensor
    bias: torch.Tensor

    def normalize(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self.bias.shape, self.weight, self.bias, 1e-5)

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes + self.bias.nbytes


@dataclass(frozen=True, slots=True)
class EncoderLayer:
    attention_norm: Shaped
    qkv: Affine
    out: Affine
    mlp_norm: Shaped
    up: Affine
    down: Affine


class Encoder:
    """faithful  products in float32; otherwise in 16-bit integers where there are native kernels, which
    differ from float32's in the fourth digit."""

    def __init__(self, checkpoint: WhisperCheckpoint, device: torch.device, *, faithful: bool) -> None:
        self._dims = checkpoint.dims
        self._device = device
        self._products = torch.float32 if faithful else torch.int16
        self._conv1 = self._shaped(checkpoint, "conv1")
        self._conv2 = self._shaped(checkpoint, "conv2")
        self._positions = checkpoint.dense(f"{_PREFIX}embed_positions.weight").to(device)  # [S, W]
        self._layers = [self._layer(checkpoint, index) for index in range(self._dims.audio_layers)]
        self._norm = self._shaped(checkpoint, "layer_norm")
        self.nbytes = sum(part.nbytes for part in (self._conv1, self._conv2, self._norm, self._positions))
        for layer in self._layers:
            self.nbytes += sum(getattr(layer, name).nbytes for name in EncoderLayer.__slots__)

    def _shaped(self, checkpoint: WhisperCheckpoint, name: str) -> Shaped:
        weight, bias = (checkpoint.dense(f"{_PREFIX}{name}.{leaf}") for leaf in ("weight", "bias"))
        return Shaped(weight.to(self._device), bias.to(self._device))

    def _affine(self, weight: torch.Tensor, bias: torch.Tensor) -> Affine:
        return affine(weight.to(self._device), bias.to(self._device), self._products, on_team=True)

    def _layer(self, checkpoint: WhisperCheckpoint, index: int) -> EncoderLayer:
        def linear(name: str) -> Affine:
            prefix = f"{_PREFIX}layers.{index}.{name}"
            return self._affine(checkpoint.dense(f"{prefix}.weight"), checkpoint.dense(f"{prefix}.bias"))

        name = f"layers.{index}."
        weights, biases = checkpoint.stacked(f"{_PREFIX}{name}self_attn", ("q_proj", "k_proj", "v_proj"))
        return EncoderLayer(
            self._shaped(checkpoint, f"{name}self_attn_layer_norm"),
            self._affine(torch.cat([checkpoint.as_dense(weight) for weight in weights]), biases),
            linear("self_attn.out_proj"),
            self._shaped(checkpoint, f"{name}final_layer_norm"),
            linear("fc1"),
            linear("fc2"),
        )

    def __call__(self, mel: torch.Tensor) -> torch.Tensor:
        """mel [num_mels, 2S] -> [S, W]; S may be smaller than the model's own."""
        x = F.gelu(F.conv1d(mel[None].to(self._device), self._conv1.weight, self._conv1.bias, padding=1))
        x = F.gelu(F.conv1d(x, self._conv2.weight, self._conv2.bias, stride=2, padding=1))
        x = x[0].T + self._positions[: x.shape[2]]
        for layer in self._layers:
            x = layer.out(self._attend(layer.qkv(layer.attention_norm.normalize(x))), residual=x)
            x = layer.down(layer.up(layer.mlp_norm.normalize(x), activation=F.gelu), residual=x)
        return self._norm.normalize(x)

    def _attend(self, qkv: torch.Tensor) -> torch.Tensor:
        num_positions = qkv.shape[0]
        heads = qkv.view(num_positions, 3, self._dims.audio_heads, -1).permute(1, 2, 0, 3)  # [3, H, S, D]
        q, k, v = heads[None].unbind(1)
        mixed = F.scaled_dot_product_attention(q, k, v)  # [1, H, S, D]
        return mixed[0].transpose(0, 1).reshape(num_positions, self._dims.width)
