"""SmolLM3: Llama in which every fourth layer sees no positions (NoPE, arXiv:2501.18795).

Reference: transformers' SmolLM3ForCausalLM.
"""

from __future__ import annotations

from stoker.models.hyperparameters import Hyperparameters, rope_parameters, windows_by_type
from stoker.models.layers.build import pre_norm_layer, read_attention, read_decoder, read_mlp
from stoker.models.layers.decoder import Decoder, DecoderLayer
from stoker.models.layers.rope import Rope
from stoker.models.reader import WeightReader

ARCHITECTURES = ("SmolLM3ForCausalLM",)
MODEL_TYPES = ("smollm3",)

_DEFAULT_THETA = 2_000_000.0


def build(reader: WeightReader) -> Decoder:
    config = reader.config
    hyper = Hyperparameters.of(config, reader.max_context)
    bias = bool(config.get("attention_bias", False))
    mlp_bias = bool(config.get("mlp_bias", False))

    # 1 where a layer rotates, 0 where it does not.
    interval = int(config.get("no_rope_layer_interval") or 4)
    rotates = config.get("no_rope_layers") or [(i + 1) % interval for i in range(hyper.num_layers)]

    window = config.get("sliding_window") if config.get("use_sliding_window") else None
    types = config.get("layer_types") or [
        "full_attention" if rotates[i] else "sliding_attention" for i in range(hyper.num_layers)
    ]
    windows = windows_by_type(types, window)

    def layer(index: int) -> DecoderLayer:
        name = f"{reader.root}.layers.{index}"
        attention = read_attention(
            reader,
            f"{name}.self_attn",
            hyper,
            index,
            window=windows[index],
            rope=0 if rotates[index] else None,
            bias=bias,
            output_bias=bias,
        )
        mlp = read_mlp(reader, f"{name}.mlp", hyper, bias=mlp_bias)
        return pre_norm_layer(reader, name, hyper, attention, mlp)

    rope = Rope(rope_parameters(config, _DEFAULT_THETA), hyper.head_dim, hyper.max_context, reader.device)
    return read_decoder(reader, hyper, [layer(i) for i in range(hyper.num_layers)], [rope])
