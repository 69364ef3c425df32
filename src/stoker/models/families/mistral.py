"""Mistral: Llama with one sliding window on every layer (0.1), or none (later versions).

Reference: arXiv:2310.06825; transformers' MistralForCausalLM.
"""

from __future__ import annotations

from stoker.models.hyperparameters import Hyperparameters, rope_parameters
from stoker.models.layers.build import pre_norm_layer, read_attention, read_decoder, read_mlp
from stoker.models.layers.decoder import Decoder, DecoderLayer
from stoker.models.layers.rope import Rope
from stoker.models.reader import WeightReader

ARCHITECTURES = ("MistralForCausalLM",)
MODEL_TYPES = ("mistral",)


def build(reader: WeightReader) -> Decoder:
    config = reader.config
    hyper = Hyperparameters.of(config, reader.max_context)
    window = config.get("sliding_window")

    def layer(index: int) -> DecoderLayer:
        name = f"{reader.root}.layers.{index}"
        attention = read_attention(reader, f"{name}.self_attn", hyper, index, window=window)
        return pre_norm_layer(reader, name, hyper, attention, read_mlp(reader, f"{name}.mlp", hyper))

    rope = Rope(rope_parameters(config), hyper.head_dim, hyper.max_context, reader.device)
    return read_decoder(reader, hyper, [layer(i) for i in range(hyper.num_layers)], [rope])
