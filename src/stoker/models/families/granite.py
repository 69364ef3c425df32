"""Granite 3: Llama with four multipliers, on embeddings, attention scores, residuals and logits.

Reference: transformers' GraniteForCausalLM.
"""

from __future__ import annotations

from stoker.models.hyperparameters import Hyperparameters, rope_parameters
from stoker.models.layers.build import pre_norm_layer, read_attention, read_decoder, read_mlp
from stoker.models.layers.decoder import Decoder, DecoderLayer
from stoker.models.layers.rope import Rope
from stoker.models.reader import WeightReader

ARCHITECTURES = ("GraniteForCausalLM",)
MODEL_TYPES = ("granite",)


def build(reader: WeightReader) -> Decoder:
    config = reader.config
    hyper = Hyperparameters.of(config, reader.max_context)
    attention_bias = bool(config.get("attention_bias", False))
    mlp_bias = bool(config.get("mlp_bias", False))
    attention_scale = float(config.get("attention_multiplier", 1.0))
    residual_scale = float(config.get("residual_multiplier", 1.0))

    def layer(index: int) -> DecoderLayer:
        name = f"{reader.root}.layers.{index}"
        attention = read_attention(
            reader,
            f"{name}.self_attn",
            hyper,
            index,
            scale=attention_scale,
            bias=attention_bias,
            output_bias=attention_bias,
        )
        mlp = read_mlp(reader, f"{name}.mlp", hyper, bias=mlp_bias)
        return pre_norm_layer(reader, name, hyper, attention, mlp, residual_scale=residual_scale)

    rope = Rope(rope_parameters(config), hyper.head_dim, hyper.max_context, reader.device)
    return read_decoder(
        reader,
        hyper,
        [layer(i) for i in range(hyper.num_layers)],
        [rope],
        embedding_scale=float(config.get("embedding_multiplier", 1.0)),
        logit_scale=1.0 / float(config.get("logits_scaling", 1.0)),
    )
