"""Qwen 3, dense: no biases by default, each query and key head normalized before rotation.

Reference: arXiv:2505.09388; transformers' Qwen3ForCausalLM.
"""

from __future__ import annotations

from stoker.models.families.qwen2 import qwen_windows
from stoker.models.hyperparameters import Hyperparameters, rope_parameters
from stoker.models.layers.build import pre_norm_layer, read_attention, read_decoder, read_mlp
from stoker.models.layers.decoder import Decoder, DecoderLayer
from stoker.models.layers.rope import Rope
from stoker.models.reader import WeightReader

ARCHITECTURES = ("Qwen3ForCausalLM",)
MODEL_TYPES = ("qwen3",)


def build(reader: WeightReader) -> Decoder:
    config = {"head_dim": 128} | reader.config
    hyper = Hyperparameters.of(config, reader.max_context)
    windows = qwen_windows(config, hyper.num_layers)
    bias = bool(config.get("attention_bias", False))

    def layer(index: int) -> DecoderLayer:
        name = f"{reader.root}.layers.{index}"
        attention = read_attention(
            reader,
            f"{name}.self_attn",
            hyper,
            index,
            window=windows[index],
            bias=bias,
            output_bias=bias,
            qk_norm="head",
        )
        return pre_norm_layer(reader, name, hyper, attention, read_mlp(reader, f"{name}.mlp", hyper))

    rope = Rope(rope_parameters(config), hyper.head_dim, hyper.max_context, reader.device)
    return read_decoder(reader, hyper, [layer(i) for i in range(hyper.num_layers)], [rope])
