"""Gemma 2: norms on both sides of each part, soft caps, every second layer sliding.

Reference: arXiv:2408.00118; transformers' Gemma2ForCausalLM. Norms multiply by 1 + weight,
embeddings by the square root of the hidden size.
"""

from __future__ import annotations

from typing import Any

from stoker.errors import UnsupportedModel
from stoker.models.hyperparameters import Hyperparameters, rope_parameters, windows_by_type
from stoker.models.layers.attention import Attention
from stoker.models.layers.build import read_attention, read_decoder, read_mlp
from stoker.models.layers.decoder import Decoder, DecoderLayer
from stoker.models.layers.norm import RMSNorm
from stoker.models.layers.rope import Rope
from stoker.models.reader import WeightReader

ARCHITECTURES = ("Gemma2ForCausalLM",)
MODEL_TYPES = ("gemma2",)

NORM_OFFSET = 1.0

# What published configs leave out.
DEFAULTS: dict[str, Any] = {
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
    "tie_word_embeddings": True,
}


def build(reader: WeightReader) -> Decoder:
    config = DEFAULTS | reader.config
    refuse_bidirectional(config)
    hyper = Hyperparameters.of(config, reader.max_context)
    types = config.get("layer_types") or [
        "full_attention" if i % 2 else "sliding_attention" for i in range(hyper.num_layers)
    ]
    windows = windows_by_type(types, config["sliding_window"])
    bias = bool(config.get("attention_bias", False))

    def layer(index: int) -> DecoderLayer:
        name = f"{reader.root}.layers.{index}"
        attention = read_attention(
            reader,
            f"{name}.self_attn",
            hyper,
            index,
            window=windows[index],
            scale=config["query_pre_attn_scalar"] ** -0.5,
            softcap=config["attn_logit_softcapping"],
            bias=bias,
            output_bias=bias,
        )
        return sandwich_layer(reader, name, hyper, attention)

    rope = Rope(rope_parameters(config), hyper.head_dim, hyper.max_context, reader.device)
    return read_decoder(
        reader,
        hyper,
        [layer(i) for i in range(hyper.num_layers)],
        [rope],
        norm_offset=NORM_OFFSET,
        embedding_scale=hyper.hidden_size**0.5,
        logit_softcap=config["final_logit_softcapping"],
    )


def sandwich_layer(
    reader: WeightReader, name: str, hyper: Hyperparameters, attention: Attention
) -> DecoderLayer:
    """A norm before and one after each part, as Gemma 2 and 3 have it."""

    def norm(which: str) -> RMSNorm:
        return reader.norm(f"{name}.{which}", hyper.hidden_size, hyper.norm_eps, NORM_OFFSET)

    return DecoderLayer(
        attention_norm=norm("input_layernorm"),
        attention=attention,
        attention_post_norm=norm("post_attention_layernorm"),
        mlp_norm=norm("pre_feedforward_layernorm"),
        mlp=read_mlp(reader, f"{name}.mlp", hyper),
        mlp_post_norm=norm("post_feedforward_layernorm"),
    )


def refuse_bidirectional(config: dict[str, Any]) -> None:
    """Encoders share the architecture name with the language models; they cannot generate."""
    if config.get("use_bidirectional_attention"):
        raise UnsupportedModel("This Gemma attends in both directions: it is an encoder and cannot chat.")
