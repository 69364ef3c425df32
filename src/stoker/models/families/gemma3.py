"""Gemma 3, text: Gemma 2 with normalized heads instead of soft caps, five sliding layers to one
full, and a rope of its own for each kind.

Reference: arXiv:2503.19786; transformers' Gemma3ForCausalLM, and the text part of
Gemma3ForConditionalGeneration (images are not read).
"""

from __future__ import annotations

from typing import Any

from stoker.models.families.gemma2 import NORM_OFFSET, refuse_bidirectional, sandwich_layer
from stoker.models.hyperparameters import Hyperparameters, rope_parameters, windows_by_type
from stoker.models.layers.build import read_attention, read_decoder
from stoker.models.layers.decoder import Decoder, DecoderLayer
from stoker.models.layers.rope import Rope
from stoker.models.reader import WeightReader

ARCHITECTURES = ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration")
MODEL_TYPES = ("gemma3_text", "gemma3")

# Published configs of the larger models state only what differs from these.
DEFAULTS: dict[str, Any] = {
    "vocab_size": 262_208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "max_position_embeddings": 131_072,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "sliding_window_pattern": 6,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
    "tie_word_embeddings": True,
}
_GLOBAL_THETA, _LOCAL_THETA = 1_000_000.0, 10_000.0


def build(reader: WeightReader) -> Decoder:
    config = DEFAULTS | reader.config.get("text_config", reader.config)
    refuse_bidirectional(config)
    hyper = Hyperparameters.of(config, reader.max_context)
    pattern = config.get("_sliding_window_pattern") or config["sliding_window_pattern"]
    types = config.get("layer_types") or [
        "sliding_attention" if (i + 1) % pattern else "full_attention" for i in range(hyper.num_layers)
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
            rope=1 if types[index] == "sliding_attention" else 0,
            scale=config["query_pre_attn_scalar"] ** -0.5,
            softcap=config["attn_logit_softcapping"],
            bias=bias,
            output_bias=bias,
            qk_norm="head",
            norm_offset=NORM_OFFSET,
        )
        return sandwich_layer(reader, name, hyper, attention)

    ropes = [
        Rope(parameters, hyper.head_dim, hyper.max_context, reader.device)
        for parameters in _full_and_sliding_rope(config)
    ]
    return read_decoder(
        reader,
        hyper,
        [layer(i) for i in range(hyper.num_layers)],
        ropes,
        norm_offset=NORM_OFFSET,
        embedding_scale=hyper.hidden_size**0.5,
        logit_softcap=config["final_logit_softcapping"],
    )


def _full_and_sliding_rope(config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Newer configs nest one set of rope settings under each kind of layer. In older ones
    `rope_scaling` and `rope_theta` are for full attention, `rope_local_base_freq` for sliding."""
    nested = config.get("rope_parameters") or {}
    full, sliding = nested.get("full_attention"), nested.get("sliding_attention")
    if full is None and not nested:
        full = config.get("rope_scaling")
    base = {key: value for key, value in config.items() if key not in ("rope_parameters", "rope_scaling")}
    local_theta = base.pop("rope_local_base_freq", None) or _LOCAL_THETA
    global_theta = base.pop("rope_theta", None) or _GLOBAL_THETA
    return (
        rope_parameters(base | {"rope_parameters": full}, global_theta),
        rope_parameters(base | {"rope_parameters": sliding}, local_theta),
    )
