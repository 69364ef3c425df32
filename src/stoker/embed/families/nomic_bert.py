"""Nomic's BERT (nomic-embed-text): BERT's post-norm with rotary positions and a gated feed-forward.

Reference: arXiv:2402.01613; transformers' NomicBertModel. Hub checkpoints carry GPT-2's names for the
configuration and names of their own for the weights; transformers' own names are read too.
"""

from __future__ import annotations

from typing import Any

import torch

from stoker.embed.encoder import Steps
from stoker.embed.packing import PackedBatch, attend
from stoker.embed.weights import EncoderWeights
from stoker.errors import UnsupportedModel
from stoker.models.hyperparameters import required_int, rope_parameters
from stoker.models.layers.mlp import find_activation
from stoker.models.layers.rope import Angles, Rope
from stoker.models.weights import Checkpoint

MODEL_TYPES = ("nomic_bert",)

# Ours -> the hub's.
_RENAMED = {
    "hidden_size": "n_embd",
    "num_attention_heads": "n_head",
    "num_hidden_layers": "n_layer",
    "intermediate_size": "n_inner",
    "max_position_embeddings": "n_positions",
    "layer_norm_eps": "layer_norm_epsilon",
    "rope_theta": "rotary_emb_base",
}
_THETA = 1000.0


class NomicBertLayer:
    __slots__ = ("activation", "attention_norm", "down", "gate", "mlp_norm", "num_heads", "output", "qkv",
                 "up")  # fmt: skip

    def __init__(self, weights: EncoderWeights, index: int, config: dict[str, Any]) -> None:
        hidden = required_int(config, "hidden_size")
        inner = required_int(config, "intermediate_size")
        eps = float(config.get("layer_norm_eps", 1e-12))
        self.num_heads = required_int(config, "num_attention_heads")
        if weights.has("encoder.layers.0.attn.Wqkv.weight"):
            name = f"encoder.layers.{index}"
            self.qkv = weights.linear(f"{name}.attn.Wqkv", 3 * hidden, hidden)
            output, up, gate, down = "attn.out_proj", "mlp.fc11", "mlp.fc12", "mlp.fc2"
            attention_norm, mlp_norm = "norm1", "norm2"
        else:
            name = f"layers.{index}"
            parts = [f"{name}.self_attn.{part}_proj" for part in "qkv"]
            self.qkv = weights.fused(parts, [hidden] * 3, hidden)
            output, up, gate, down = "self_attn.o_proj", "mlp.up_proj", "mlp.gate_proj", "mlp.down_proj"
            attention_norm, mlp_norm = "post_attention_layernorm", "post_mlp_layernorm"
        self.output = weights.linear(f"{name}.{output}", hidden, hidden)
        self.attention_norm = weights.layer_norm(f"{name}.{attention_norm}", hidden, eps)
        self.up = weights.linear(f"{name}.{up}", inner, hidden)
        self.gate = weights.linear(f"{name}.{gate}", inner, hidden)
        self.down = weights.linear(f"{name}.{down}", hidden, inner)
        self.mlp_norm = weights.layer_norm(f"{name}.{mlp_norm}", hidden, eps)
        self.activation = find_activation(str(config.get("hidden_act", "silu")))

    def forward(self, x: torch.Tensor, batch: PackedBatch, angles: Angles) -> torch.Tensor:
        qkv = self.qkv(x).view(len(x), 3, self.num_heads, -1)
        q, k = angles.rotate(qkv[:, 0]), angles.rotate(qkv[:, 1])
        attended = attend(q, k, qkv[:, 2], batch.runs, scale=q.shape[-1] ** -0.5)
        x = self.attention_norm(self.output(attended.flatten(1), residual=x))
        gated = self.gate(x, activation=self.activation) * self.up(x)
        return self.mlp_norm(self.down(gated, residual=x))


class NomicBertEncoder:
    is_parallel = True

    def __init__(self, weights: EncoderWeights) -> None:
        config = _our_names(weights.config)
        hidden = self.hidden_size = required_int(config, "hidden_size")
        inner = required_int(config, "intermediate_size")
        self.max_tokens = required_int(config, "max_position_embeddings")
        self.words = weights.table("embeddings.word_embeddings", required_int(config, "vocab_size"), hidden)
        num_types = int(config.get("type_vocab_size", 2))
        self.types = weights.table("embeddings.token_type_embeddings", num_types, hidden)
        norm = "emb_ln" if weights.has("emb_ln.weight") else "embeddings.LayerNorm"
        self.norm = weights.layer_norm(norm, hidden, float(config.get("layer_norm_eps", 1e-12)))
        self.layers = [
            NomicBertLayer(weights, index, config)
            for index in range(required_int(config, "num_hidden_layers"))
        ]
        head_dim = hidden // required_int(config, "num_attention_heads")
        self.rope = Rope(rope_parameters(config, _THETA), head_dim, self.max_tokens, weights.device)
        self.layer_parameters = 4 * hidden * hidden + 3 * hidden * inner
        self.nbytes = weights.nbytes

    def steps(self, batch: PackedBatch) -> Steps:
        angles = self.rope.at(batch.positions)
        types = self.types[0] if batch.token_types is None else self.types[batch.token_types]
        x = self.norm(self.words[batch.token_ids] + types)
        for layer in self.layers:
            yield
            x = layer.forward(x, batch, angles)
        return x


def _our_names(config: dict[str, Any]) -> dict[str, Any]:
    """Raises UnsupportedModel for a variant that is computed differently."""
    odd = {
        "prenorm": config.get("prenorm", False),
        "rotary_emb_interleaved": config.get("rotary_emb_interleaved", False),
        "rotary_scaling_factor": config.get("rotary_scaling_factor"),
        "num_experts": config.get("moe_every_n_layers"),
        "activation_function": config.get("activation_function", "swiglu") != "swiglu",
    }
    if given := [name for name, value in odd.items() if value]:
        raise UnsupportedModel(
            f"This nomic_bert model has {', '.join(given)}, which stoker does not compute."
        )
    renamed = {ours: config[theirs] for ours, theirs in _RENAMED.items() if config.get(theirs) is not None}
    return config | renamed


def build(checkpoint: Checkpoint, dtype: torch.dtype, device: str) -> NomicBertEncoder:
    probe = "embeddings.word_embeddings.weight"
    roots = ("", "bert.", "nomic_bert.")
    return NomicBertEncoder(EncoderWeights(checkpoint, roots, probe, dtype=dtype, device=device))
