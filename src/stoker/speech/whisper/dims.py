"""The sizes of a Whisper model, as every format has to state them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.errors import CorruptModel


@dataclass(frozen=True, slots=True)
class Dimensions:
    num_mels: int
    audio_ctx: int  # encoder positions, two mel frames each
    text_ctx: int  # decoder positions
    width: int
    audio_heads: int
    audio_layers: int
    text_heads: int
    text_layers: int
    vocab_size: int

    @property
    def window_frames(self) -> int:
        return 2 * self.audio_ctx


_HF_NAMES = {
    "num_mels": "num_mel_bins",
    "audio_ctx": "max_source_positions",
    "text_ctx": "max_target_positions",
    "width": "d_model",
    "audio_heads": "encoder_attention_heads",
    "audio_layers": "encoder_layers",
    "text_heads": "decoder_attention_heads",
    "text_layers": "decoder_layers",
    "vocab_size": "vocab_size",
}
_MLX_NAMES = {
    "num_mels": "n_mels",
    "audio_ctx": "n_audio_ctx",
    "text_ctx": "n_text_ctx",
    "width": "n_audio_state",
    "audio_heads": "n_audio_head",
    "audio_layers": "n_audio_layer",
    "text_heads": "n_text_head",
    "text_layers": "n_text_layer",
    "vocab_size": "n_vocab",
}


def is_mlx_config(config: Mapping[str, Any]) -> bool:
    return "n_audio_state" in config


def read_dimensions(config: Mapping[str, Any]) -> Dimensions:
    """From config.json, as Hugging Face or as MLX spells it. Raises CorruptModel."""
    names = _MLX_NAMES if is_mlx_config(config) else _HF_NAMES
    found = {field: config.get(name) for field, name in names.items()}
    for field, value in found.items():
        if type(value) is not int or value <= 0:
            raise CorruptModel(f"config.json: {names[field]} should be a positive number, not {value!r}")
    dims = Dimensions(**{field: int(value or 0) for field, value in found.items()})
    for heads in (dims.audio_heads, dims.text_heads):
        if dims.width % heads:
            raise CorruptModel(f"config.json: {heads} heads do not divide a width of {dims.width}")
    return dims
