"""Whisper's encoder: a window of mel frames to one vector per 20 ms.

Legend: S positions (two frames each), W width, H heads, D head size. Weights go by their Hugging Face names.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from stoker.kernels.affine import Affine, affine
from stoker.kernels.encoder_attention import attend_sequences, can_attend
from stoker.kernels.quantized import as_dense
from stoker.kernels.source import MatrixSource
from stoker.kernels.storage import LargePages
from stoker.speech.whisper.checkpoint import WhisperCheckpoint

_PREFIX = "model.encoder."


@dataclass(frozen=True, slots=True)
class Norm:
    """Layer normalization."""

    weight: torch.Tensor
    bias: torch.Tensor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self.bias.shape, self.weight, self.bias, 1e-5)

    @property
    def nbytes(self) -> int:
        return self.weight.nbytes + self.bias.nbytes


@dataclass(frozen=True, slots=True)
class Convolution:
    """GELU of a convolution over time of width 3, as a product with every three neighbouring frames."""

    affine: Affine
    stride: int

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """[frames, channels] -> [frames / stride, W]."""
        num_frames, channels = x.shape
        padded = F.pad(x, (0, 0, 1, 1))
        threes = padded.as_strided((num_frames // self.stride, 3 * channels), (self.stride * channels, 1))
        return self.affine(threes, activation=F.gelu)


@dataclass(frozen=True, slots=True)
class EncoderLayer:
    attention_norm: Norm
    qkv: Affine
    out: Affine
    mlp_norm: Norm
    up: Affine
    down: Affine


class Encoder:
    """faithful  products in float32; otherwise in 16-bit integers where there are native kernels, which
    differ from float32's in the fourth digit."""

    def __init__(self, checkpoint: WhisperCheckpoint, device: torch.device, *, faithful: bool) -> None:
        self._dims = checkpoint.dims
        self._device = device
        # On the kernels' threads; otherwise on torch's.
        self.is_native = not faithful and can_attend(self._dims.width // self._dims.audio_heads, device)
        self._products = torch.int16 if self.is_native else torch.float32
        self._memory = LargePages()
        self._conv1 = self._convolution(checkpoint, "conv1", stride=1)
        self._conv2 = self._convolution(checkpoint, "conv2", stride=2)
        self._positions = checkpoint.dense(f"{_PREFIX}embed_positions.weight").to(device)  # [S, W]
        self._layers = [self._layer(checkpoint, index) for index in range(self._dims.audio_layers)]
        self._norm = self._read_norm(checkpoint, "layer_norm")
        self.nbytes = sum(
            part.nbytes for part in (self._conv1.affine, self._conv2.affine, self._norm, self._positions)
        )
        for layer in self._layers:
            self.nbytes += sum(getattr(layer, name).nbytes for name in EncoderLayer.__slots__)

    def _read_norm(self, checkpoint: WhisperCheckpoint, name: str) -> Norm:
        weight, bias = (checkpoint.dense(f"{_PREFIX}{name}.{leaf}") for leaf in ("weight", "bias"))
        return Norm(weight.to(self._device), bias.to(self._device))

    def _convolution(self, checkpoint: WhisperCheckpoint, name: str, stride: int) -> Convolution:
        weight = checkpoint.dense(f"{_PREFIX}{name}.weight")  # [W, channels, 3]
        bias = checkpoint.dense(f"{_PREFIX}{name}.bias")
        return Convolution(self._affine(weight.transpose(1, 2).flatten(1), bias), stride)

    def _affine(self, weight: torch.Tensor | MatrixSource, bias: torch.Tensor) -> Affine:
        if self._device.type != "cpu":
            if not isinstance(weight, torch.Tensor):
                weight = as_dense(weight.read(0, weight.shape[0]))
            weight, bias = weight.to(self._device), bias.to(self._device)
        return affine(weight, bias, self._products, on_team=True, memory=self._memory)

    def _layer(self, checkpoint: WhisperCheckpoint, index: int) -> EncoderLayer:
        def linear(name: str) -> Affine:
            prefix = f"{_PREFIX}layers.{index}.{name}"
            return self._affine(checkpoint.matrix(f"{prefix}.weight"), checkpoint.dense(f"{prefix}.bias"))

        name = f"layers.{index}."
        qkv, qkv_bias = checkpoint.stacked(f"{_PREFIX}{name}self_attn", ("q_proj", "k_proj", "v_proj"))
        return EncoderLayer(
            self._read_norm(checkpoint, f"{name}self_attn_layer_norm"),
            self._affine(qkv, qkv_bias),
            linear("self_attn.out_proj"),
            self._read_norm(checkpoint, f"{name}final_layer_norm"),
            linear("fc1"),
            linear("fc2"),
        )

    def __call__(self, mel: torch.Tensor) -> torch.Tensor:
        """mel [num_mels, 2S] -> [S, W]; S may be smaller than the model's own."""
        steps = self.steps(mel)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                audio: torch.Tensor = end.value
                return audio

    def steps(self, mel: torch.Tensor) -> Generator[None, None, torch.Tensor]:
        """The same, stopping between layers, so that others may compute meanwhile."""
        x = self._convolve(mel.T.to(self._device))
        x = x + self._positions[: len(x)]
        for layer in self._layers:
            yield
            x = layer.out(self._attend(layer.qkv(layer.attention_norm(x))), residual=x)
            x = layer.down(layer.up(layer.mlp_norm(x), activation=F.gelu), residual=x)
        return self._norm(x)

    def _convolve(self, frames: torch.Tensor) -> torch.Tensor:
        """[2S, num_mels] -> [S, W]. Behind the sound all frames are zero, and what comes of them is equal: it
        is computed once. Exact where every row is computed by itself, as the native kernels do."""
        num_frames = frames.shape[0]
        sound = frames.any(dim=1).nonzero()
        # The last of these frames, and of the rows they become, see nothing but zeros.
        needed = (int(sound[-1]) + 1 if len(sound) else 0) // 2 * 2 + 6
        if not self.is_native or needed >= num_frames:
            return self._conv2(self._conv1(frames))
        x = self._conv2(self._conv1(frames[:needed]))
        return torch.cat((x, x[-1:].expand((num_frames - needed) // 2, -1)))

    def _attend(self, qkv: torch.Tensor) -> torch.Tensor:
        num_positions = qkv.shape[0]
        if self.is_native:
            q, k, v = qkv.view(num_positions, 3, self._dims.audio_heads, -1).unbind(1)
            scale = q.shape[2] ** -0.5
            return attend_sequences(q, k, v, [(0, num_positions)], scale=scale).flatten(1)
        heads = qkv.view(num_positions, 3, self._dims.audio_heads, -1).permute(1, 2, 0, 3)  # [3, H, S, D]
        q, k, v = heads[None].unbind(1)
        mixed = F.scaled_dot_product_attention(q, k, v)  # [1, H, S, D]
        return mixed[0].transpose(0, 1).reshape(num_positions, self._dims.width)
