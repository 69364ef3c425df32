"""Phi-3, Phi-3.5 and Phi-4 (mini too): Llama with q, k, v and gate, up stored fused.

Reference: arXiv:2404.14219, arXiv:2412.08905; transformers' Phi3ForCausalLM. The long-context
versions use LongRoPE; Phi-4-mini rotates only part of each head.
"""

from __future__ import annotations

from stoker.models.hyperparameters import Hyperparameters, rope_parameters
from stoker.models.layers.build import pre_norm_layer, read_attention, read_decoder, read_mlp
from stoker.models.layers.decoder import Decoder, DecoderLayer
from stoker.models.layers.rope import Rope
from stoker.models.reader import WeightReader

ARCHITECTURES = ("Phi3ForCausalLM",)
MODEL_TYPES = ("phi3",)


def build(reader: WeightReader) -> Decoder:
    config = {"rms_norm_eps": 1e-5} | reader.config
    hyper = Hyperparameters.of(config, reader.max_context)
    window = config.get("sliding_window")
    qkv_size = (hyper.num_heads + 2 * hyper.num_kv_heads) * hyper.head_dim

    def layer(index: int) -> DecoderLayer:
        name = f"{reader.root}.layers.{index}"
        qkv = reader.linear(f"{name}.self_attn.qkv_proj", qkv_size, hyper.hidden_size)
        gate_up = reader.linear(f"{name}.mlp.gate_up_proj", 2 * hyper.intermediate_size, hyper.hidden_size)
        attention = read_attention(reader, f"{name}.self_attn", hyper, index, window=window, qkv=qkv)
        mlp = read_mlp(reader, f"{name}.mlp", hyper, gate_up=gate_up)
        return pre_norm_layer(reader, name, hyper, attention, mlp)

    rope = Rope(rope_parameters(config), hyper.head_dim, hyper.max_context, reader.device)
    return read_decoder(reader, hyper, [layer(i) for i in range(hyper.num_layers)], [rope])
