"""What most family files ask for: the usual layers under their usual Hugging Face names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from stoker.kv.base import LayerSpec
from stoker.models.hyperparameters import Hyperparameters
from stoker.models.layers.attention import Attention
from stoker.models.layers.decoder import Decoder, DecoderLayer
from stoker.models.layers.linear import Projection, round_less
from stoker.models.layers.mlp import FeedForward, GatedMLP, find_activation
from stoker.models.layers.norm import RMSNorm
from stoker.models.layers.rope import Rope
from stoker.models.reader import WeightReader


def read_attention(
    reader: WeightReader,
    name: str,  # "model.layers.0.self_attn"
    hyper: Hyperparameters,
    layer: int,
    *,
    window: int | None = None,
    rope: int | None = 0,
    scale: float | None = None,
    softcap: float | None = None,
    bias: bool = False,  # of q, k and v
    output_bias: bool = False,
    qk_norm: Literal["head", "projection"] | None = None,
    norm_offset: float = 0.0,
    qkv: Projection | None = None,  # when the checkpoint has it fused
) -> Attention:
    """Projections q_proj, k_proj, v_proj and o_proj, norms q_norm and k_norm."""
    head_dim, num_heads, num_kv_heads = hyper.head_dim, hyper.num_heads, hyper.num_kv_heads
    q_size, kv_size = num_heads * head_dim, num_kv_heads * head_dim
    names = [f"{name}.{part}_proj" for part in "qkv"]
    if qkv is None:
        qkv = reader.fused(names, (q_size, kv_size, kv_size), hyper.hidden_size, bias=bias)
    # Scores go through an exponential, which makes this the projection whose rounding costs the most:
    # on SmolLM2 it is a quarter of the whole error in log-probabilities, for an eighth of the work.
    round_less(qkv)

    head_norm, projection_norms = None, None
    if qk_norm == "head":
        q_weight = reader.vector(f"{name}.q_norm", head_dim, norm_offset).expand(num_heads, -1)
        k_weight = reader.vector(f"{name}.k_norm", head_dim, norm_offset).expand(num_kv_heads, -1)
        head_norm = RMSNorm(torch.cat((q_weight, k_weight)), hyper.norm_eps, torch.float32)
    elif qk_norm == "projection":
        q_norm = RMSNorm(reader.vector(f"{name}.q_norm", q_size), hyper.norm_eps, torch.float32)
        k_norm = RMSNorm(reader.vector(f"{name}.k_norm", kv_size), hyper.norm_eps, torch.float32)
        projection_norms = (q_norm, k_norm)

    # A window as wide as the context hides nothing; attention is cheaper without it.
    if window is not None and window >= hyper.max_context:
        window = None
    return Attention(
        layer,
        LayerSpec(num_kv_heads, head_dim, window),
        num_heads,
        qkv,
        reader.linear(f"{name}.o_proj", hyper.hidden_size, q_size, bias=output_bias),
        rope=rope,
        scale=scale,
        softcap=softcap,
        head_norm=head_norm,
        projection_norms=projection_norms,
    )


def read_mlp(
    reader: WeightReader,
    name: str,  # "model.layers.0.mlp"
    hyper: Hyperparameters,
    *,
    intermediate_size: int | None = None,  # None = the config's own
    bias: bool = False,
    gate_up: Projection | None = None,  # when the checkpoint has it fused
) -> GatedMLP:
    """Projections gate_proj, up_proj and down_proj."""
    size = intermediate_size or hyper.intermediate_size
    if gate_up is None:
        names = (f"{name}.gate_proj", f"{name}.up_proj")
        gate_up = reader.fused(names, (size, size), hyper.hidden_size, bias=bias)
    down = reader.linear(f"{name}.down_proj", hyper.hidden_size, size, bias=bias)
    return GatedMLP(gate_up, down, find_activation(hyper.activation))


def pre_norm_layer(
    reader: WeightReader,
    name: str,  # "model.layers.0"
    hyper: Hyperparameters,
    attention: Attention,
    mlp: FeedForward,
    *,
    residual_scale: float = 1.0,
) -> DecoderLayer:
    """Llama's arrangement: a norm before each part, none after."""
    return DecoderLayer(
        attention_norm=reader.norm(f"{name}.input_layernorm", hyper.hidden_size, hyper.norm_eps),
        attention=attention,
        mlp_norm=reader.norm(f"{name}.post_attention_layernorm", hyper.hidden_size, hyper.norm_eps),
        mlp=mlp,
        residual_scale=residual_scale,
    )


def read_decoder(
    reader: WeightReader,
    hyper: Hyperparameters,
    layers: Sequence[DecoderLayer],
    ropes: Sequence[Rope],
    *,
    norm_offset: float = 0.0,
    embedding_scale: float = 1.0,
    logit_scale: float = 1.0,
    logit_softcap: float | None = None,
) -> Decoder:
    """Adds embed_tokens, the final norm and lm_head (or the embedding again, when tied).
    A config that does not say whether they are tied means: when there is no lm_head."""
    size = (hyper.vocab_size, hyper.hidden_size)
    embedding = reader.matrix(f"{reader.root}.embed_tokens", *size)
    tied = hyper.ties_embeddings
    if tied is None:
        tied = not reader.has(reader.head)
    head = embedding if tied else reader.matrix(reader.head, *size)
    norm = reader.norm(f"{reader.root}.norm", hyper.hidden_size, hyper.norm_eps, norm_offset)
    return Decoder(
        embedding=embedding,
        layers=layers,
        ropes=ropes,
        norm=norm,
        head=head,
        max_context=hyper.max_context,
        dtype=reader.dtype,
        nbytes=reader.finish(),
        embedding_scale=embedding_scale,
        logit_scale=logit_scale,
        logit_softcap=logit_softcap,
    )
