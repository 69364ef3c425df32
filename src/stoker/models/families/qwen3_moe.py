"""Qwen 3, mixture of experts: the attention of Qwen 3 over sparse feed-forward layers.

Reference: arXiv:2505.09388; transformers' Qwen3MoeForCausalLM.
"""

from __future__ import annotations

from stoker.models.hyperparameters import Hyperparameters, required_int, rope_parameters
from stoker.models.layers.build import pre_norm_layer, read_attention, read_decoder, read_mlp
from stoker.models.layers.decoder import Decoder, DecoderLayer
from stoker.models.layers.mlp import FeedForward, MixtureOfExperts
from stoker.models.layers.rope import Rope
from stoker.models.reader import WeightReader

ARCHITECTURES = ("Qwen3MoeForCausalLM",)
MODEL_TYPES = ("qwen3_moe",)


def build(reader: WeightReader) -> Decoder:
    config = reader.config
    hyper = Hyperparameters.of(config, reader.max_context)
    bias = bool(config.get("attention_bias", False))
    window = config.get("sliding_window") if config.get("use_sliding_window") else None

    sparse_step = int(config.get("decoder_sparse_step") or 1)
    dense_layers = frozenset(config.get("mlp_only_layers") or ())

    def feed_forward(name: str, index: int) -> FeedForward:
        is_sparse = index not in dense_layers and (index + 1) % sparse_step == 0
        return _read_experts(reader, name, hyper) if is_sparse else read_mlp(reader, name, hyper)

    def layer(index: int) -> DecoderLayer:
        name = f"{reader.root}.layers.{index}"
        attention = read_attention(
            reader,
            f"{name}.self_attn",
            hyper,
            index,
            window=window,
            bias=bias,
            output_bias=bias,
            qk_norm="head",
        )
        return pre_norm_layer(reader, name, hyper, attention, feed_forward(f"{name}.mlp", index))

    rope = Rope(rope_parameters(config), hyper.head_dim, hyper.max_context, reader.device)
    return read_decoder(reader, hyper, [layer(i) for i in range(hyper.num_layers)], [rope])


def _read_experts(reader: WeightReader, name: str, hyper: Hyperparameters) -> MixtureOfExperts:
    config = reader.config
    # transformers 5 writes the count under the name its other sparse models use.
    num_experts = required_int(config, "num_experts" if "num_experts" in config else "num_local_experts")
    size = required_int(config, "moe_intermediate_size")
    return MixtureOfExperts(
        # Small, and a slip in it sends a token to the wrong expert: never quantized on load.
        reader.linear(f"{name}.gate", num_experts, hyper.hidden_size, quantizes=False),
        [
            read_mlp(reader, f"{name}.experts.{expert}", hyper, intermediate_size=size)
            for expert in range(num_experts)
        ],
        top_k=required_int(config, "num_experts_per_tok"),
        normalizes=bool(config.get("norm_topk_prob", False)),
    )
