"""MLX's Whisper folders: weights.npz or safetensors under openai-whisper's names, perhaps quantized.

Convolutions have their channels last, the encoder's sinusoids are not stored, and `alignment_heads` may be a
tensor among the weights.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from stoker.kernels.quantized import Weight
from stoker.kernels.source import MatrixSource
from stoker.models.formats.mlx import MlxCheckpoint, is_mlx_quantized
from stoker.models.formats.safetensors import Entry, SafetensorsCheckpoint
from stoker.speech.whisper.dims import Dimensions
from stoker.speech.whisper.formats.npz import read_npz

NPZ_NAME = "weights.npz"

_TOP = {
    "encoder.layer_norm": "encoder.ln_post",
    "decoder.layer_norm": "decoder.ln",
    "decoder.embed_tokens": "decoder.token_embedding",
}
_MODULES = {
    "self_attn.q_proj": "attn.query",
    "self_attn.k_proj": "attn.key",
    "self_attn.v_proj": "attn.value",
    "self_attn.out_proj": "attn.out",
    "self_attn_layer_norm": "attn_ln",
    "encoder_attn.q_proj": "cross_attn.query",
    "encoder_attn.k_proj": "cross_attn.key",
    "encoder_attn.v_proj": "cross_attn.value",
    "encoder_attn.out_proj": "cross_attn.out",
    "encoder_attn_layer_norm": "cross_attn_ln",
    "fc1": "mlp1",
    "fc2": "mlp2",
    "final_layer_norm": "mlp_ln",
}
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)\.(weight|bias)")
_SINUSOIDS = "encoder.embed_positions.weight"
_POSITIONS = "decoder.embed_positions.weight"


class _NpzCheckpoint(SafetensorsCheckpoint):
    def _read_entries(self, folder: Path) -> dict[str, Entry]:
        return read_npz(folder / NPZ_NAME)


class _QuantizedNpzCheckpoint(MlxCheckpoint):
    def _read_entries(self, folder: Path) -> dict[str, Entry]:
        return read_npz(folder / NPZ_NAME)


class MlxWeights:
    """Views of the mapped file, under Hugging Face names."""

    def __init__(self, checkpoint: SafetensorsCheckpoint, dims: Dimensions) -> None:
        self._checkpoint = checkpoint
        self._dims = dims

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name.endswith(_SINUSOIDS) or translate(name) in self._checkpoint)

    def get(self, name: str) -> Weight:
        if name.endswith(_SINUSOIDS):
            return sinusoids(self._dims.audio_ctx, self._dims.width)
        weight = self._checkpoint.get(translate(name))
        if isinstance(weight, torch.Tensor) and weight.dim() == 3:  # [out, taps, in]
            return weight.transpose(1, 2)
        return weight

    def matrix(self, name: str) -> MatrixSource:
        return self._checkpoint.matrix(translate(name))


def open_mlx(folder: Path, config: Mapping[str, Any], dims: Dimensions) -> tuple[MlxWeights, object]:
    """The weights, and the alignment heads where they are stored."""
    has_npz = (folder / NPZ_NAME).is_file()
    quantized = is_mlx_quantized(config)
    kind: type[SafetensorsCheckpoint]
    if has_npz:
        kind = _QuantizedNpzCheckpoint if quantized else _NpzCheckpoint
    else:
        kind = MlxCheckpoint if quantized else SafetensorsCheckpoint
    checkpoint = kind(folder, dict(config))
    heads = None
    if "alignment_heads" in checkpoint:
        entry, dtype = checkpoint.stored("alignment_heads")
        heads = entry.file.tensor(entry.offset, entry.shape, dtype).tolist()
    return MlxWeights(checkpoint, dims), heads


def translate(name: str) -> str:
    """openai-whisper's name, as MLX spells it, for a Hugging Face name."""
    plain = name.removeprefix("model.")
    if plain == _POSITIONS:
        return "decoder.positional_embedding"
    if match := _LAYER.fullmatch(plain):
        side, layer, module, leaf = match.groups()
        return f"{side}.blocks.{layer}.{_MODULES.get(module, module)}.{leaf}"
    module, _, leaf = plain.rpartition(".")
    return f"{_TOP.get(module, module)}.{leaf}"


def sinusoids(length: int, channels: int) -> torch.Tensor:
    """[length, channels]: sines, then cosines, with wavelengths from 2 pi to 10000 * 2 pi."""
    half = channels // 2
    rates = torch.exp(-math.log(10_000) / (half - 1) * torch.arange(half))
    angles = torch.arange(length)[:, None] * rates[None]
    return torch.cat((angles.sin(), angles.cos()), dim=1)
