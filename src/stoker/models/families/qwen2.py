"""Qwen 2 and 2.5: Llama with biases on q, k and v, and windows on the upper layers if asked for.

Reference: arXiv:2407.10671; transformers' Qwen2ForCausalLM.
"""

from __future__ import annotations

from typing import Any

from stoker.models.hyperparameters import Hyperparameters, rope_parameters, windows_by_type
from stoker.models.layers.build import pre_norm_layer, read_attention, read_decoder, read_mlp
from stoker.models.layers.decoder import Decoder, DecoderLayer
from stoker.models.layers.rope import Rope
from stoker.models.reader import WeightReader

ARCHITECTURES = ("Qwen2ForCausalLM",)
MODEL_TYPES = ("qwen2",)


def build(reader: WeightReader) -> Decoder:
    config = reader.config
    hyper = Hyperparameters.of(config, reader.max_context)
    windows = qwen_windows(config, hyper.num_layers)

    def layer(index: int) -> DecoderLayer:
        name = f"{reader.root}.layers.{index}"
        attention = read_attention(
            reader, f"{name}.self_attn", hyper, index, window=windows[index], bias=True
        )
        return pre_norm_layer(reader, name, hyper, attention, read_mlp(reader, f"{name}.mlp", hyper))

    rope = Rope(rope_parameters(config), hyper.head_dim, hyper.max_context, reader.device)
    return read_decoder(reader, hyper, [layer(i) for i in range(hyper.num_layers)], [rope])


def qwen_windows(config: dict[str, Any], num_layers: int) -> tuple[int | None, ...]:
    """Layers from `max_window_layers` up slide, when sliding is on at all."""
    window = config.get("sliding_window") if config.get("use_sliding_window") else None
    first = int(config.get("max_window_layers", 28))
    types = config.get("layer_types") or [
        "sliding_attention" if i >= first else "full_attention" for i in range(num_layers)
    ]
    return windows_by_type(types, window)
