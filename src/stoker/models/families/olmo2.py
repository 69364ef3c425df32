"""OLMo 2: norms after each part instead of before, q and k normalized over all heads at once.

Reference: arXiv:2501.00656; transformers' Olmo2ForCausalLM.
"""

from __future__ import annotations

from stoker.models.hyperparameters import Hyperparameters, rope_parameters
from stoker.models.layers.build import read_attention, read_decoder, read_mlp
from stoker.models.layers.decoder import Decoder, DecoderLayer
from stoker.models.layers.norm import Cast, RMSNorm
from stoker.models.layers.rope import Rope
from stoker.models.reader import WeightReader

ARCHITECTURES = ("Olmo2ForCausalLM",)
MODEL_TYPES = ("olmo2",)


def build(reader: WeightReader) -> Decoder:
    config = {"rms_norm_eps": 1e-5} | reader.config
    hyper = Hyperparameters.of(config, reader.max_context)
    bias = bool(config.get("attention_bias", False))
    no_norm = Cast(reader.dtype)

    def layer(index: int) -> DecoderLayer:
        name = f"{reader.root}.layers.{index}"

        def norm(which: str) -> RMSNorm:
            return reader.norm(f"{name}.{which}", hyper.hidden_size, hyper.norm_eps)

        return DecoderLayer(
            attention_norm=no_norm,
            attention=read_attention(
                reader,
                f"{name}.self_attn",
                hyper,
                index,
                bias=bias,
                output_bias=bias,
                qk_norm="projection",
            ),
            attention_post_norm=norm("post_attention_layernorm"),
            mlp_norm=no_norm,
            mlp=read_mlp(reader, f"{name}.mlp", hyper),
            mlp_post_norm=norm("post_feedforward_layernorm"),
        )

    rope = Rope(rope_parameters(config), hyper.head_dim, hyper.max_context, reader.device)
    return read_decoder(reader, hyper, [layer(i) for i in range(hyper.num_layers)], [rope])
