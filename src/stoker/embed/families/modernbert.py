"""ModernBERT: pre-norm, rotary positions, gated feed-forward, two windowed layers to one full.

Reference: arXiv:2412.13663; transformers' ModernBertModel.
"""

from __future__ import annotations

from typing import Any

import torch

from stoker.embed.encoder import Head, Steps
from stoker.embed.packing import PackedBatch, attend
from stoker.embed.weights import EncoderWeights
from stoker.models.hyperparameters import required_int, rope_parameters
from stoker.models.layers.mlp import find_activation
from stoker.models.layers.rope import Angles, Rope
from stoker.models.weights import Checkpoint

MODEL_TYPES = ("modernbert",)

_GLOBAL_THETA, _LOCAL_THETA = 160_000.0, 10_000.0


class ModernBertLayer:
    __slots__ = ("activation", "attention_norm", "down", "gate_up", "is_sliding", "mlp_norm", "num_heads",
                 "output", "qkv", "reach")  # fmt: skip

    def __init__(self, weights: EncoderWeights, index: int, hidden: int, is_sliding: bool) -> None:
        config = weights.config
        name, eps = f"layers.{index}", float(config.get("norm_eps", 1e-5))
        inner = required_int(config, "intermediate_size")
        self.num_heads = required_int(config, "num_attention_heads")
        self.is_sliding = is_sliding
        self.reach = int(config.get("local_attention", 128)) // 2 + 1 if is_sliding else None
        # The embeddings have just been normalized when they come to the first layer.
        self.attention_norm = weights.layer_norm(f"{name}.attn_norm", hidden, eps) if index else None
        self.qkv = weights.linear(f"{name}.attn.Wqkv", 3 * hidden, hidden)
        self.output = weights.linear(f"{name}.attn.Wo", hidden, hidden)
        self.mlp_norm = weights.layer_norm(f"{name}.mlp_norm", hidden, eps)
        self.gate_up = weights.linear(f"{name}.mlp.Wi", 2 * inner, hidden)
        self.down = weights.linear(f"{name}.mlp.Wo", hidden, inner)
        self.activation = find_activation(config.get("hidden_activation") or "gelu")

    def forward(self, x: torch.Tensor, batch: PackedBatch, angles: Angles) -> torch.Tensor:
        normed = x if self.attention_norm is None else self.attention_norm(x)
        qkv = self.qkv(normed).view(len(x), 3, self.num_heads, -1)
        q, k = angles.rotate(qkv[:, 0]), angles.rotate(qkv[:, 1])
        attended = attend(q, k, qkv[:, 2], batch.runs, scale=q.shape[-1] ** -0.5, reach=self.reach)
        x = self.output(attended.flatten(1), residual=x)
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        return self.down(self.activation(gate) * up, residual=x)


class ModernBertEncoder:
    is_parallel = True

    def __init__(self, weights: EncoderWeights) -> None:
        config = weights.config
        hidden = self.hidden_size = required_int(config, "hidden_size")
        num_layers = required_int(config, "num_hidden_layers")
        eps = float(config.get("norm_eps", 1e-5))
        self.max_tokens = required_int(config, "max_position_embeddings")
        vocab_size = required_int(config, "vocab_size")
        self.words = weights.table("embeddings.tok_embeddings", vocab_size, hidden)
        self.norm = weights.layer_norm("embeddings.norm", hidden, eps)
        self.layers = [
            ModernBertLayer(weights, index, hidden, sliding)
            for index, sliding in enumerate(_sliding_layers(config, num_layers))
        ]
        self.final_norm = weights.layer_norm("final_norm", hidden, eps)
        head_dim = hidden // required_int(config, "num_attention_heads")
        self.full_rope, self.sliding_rope = (
            Rope(parameters, head_dim, self.max_tokens, weights.device) for parameters in _ropes(config)
        )
        self.layer_parameters = 4 * hidden * hidden + 3 * hidden * required_int(config, "intermediate_size")
        self.nbytes = weights.nbytes

    def steps(self, batch: PackedBatch) -> Steps:
        full, sliding = self.full_rope.at(batch.positions), self.sliding_rope.at(batch.positions)
        x = self.norm(self.words[batch.token_ids])
        for layer in self.layers:
            yield
            x = layer.forward(x, batch, sliding if layer.is_sliding else full)
        return self.final_norm(x)


def _sliding_layers(config: dict[str, Any], num_layers: int) -> list[bool]:
    types = config.get("layer_types")
    if types:
        return [kind == "sliding_attention" for kind in types]
    period = int(config.get("global_attn_every_n_layers", 3))
    return [index % period != 0 for index in range(num_layers)]


def _ropes(config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of full and of sliding layers: nested in newer configs, two frequencies in older ones."""
    nested = config.get("rope_parameters") or {}
    base = {key: value for key, value in config.items() if key != "rope_parameters"}
    full_theta = float(config.get("global_rope_theta") or _GLOBAL_THETA)
    local_theta = float(config.get("local_rope_theta") or _LOCAL_THETA)
    return (
        rope_parameters(base | {"rope_parameters": nested.get("full_attention")}, full_theta),
        rope_parameters(base | {"rope_parameters": nested.get("sliding_attention")}, local_theta),
    )


def build(checkpoint: Checkpoint, dtype: torch.dtype, device: str) -> ModernBertEncoder:
    probe = "embeddings.tok_embeddings.weight"
    return ModernBertEncoder(EncoderWeights(checkpoint, ("", "model."), probe, dtype=dtype, device=device))


def read_head(checkpoint: Checkpoint, num_labels: int, device: str) -> Head:
    top = EncoderWeights(checkpoint, ("",), "", device=device)
    config = checkpoint.config
    hidden = required_int(config, "hidden_size")
    dense = top.linear("head.dense", hidden, hidden)
    norm = top.layer_norm("head.norm", hidden, float(config.get("norm_eps", 1e-5)))
    classifier = top.linear("classifier", num_labels, hidden)
    activation = find_activation(config.get("classifier_activation") or "gelu")
    takes_mean = config.get("classifier_pooling") == "mean"

    def head(x: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        pooled = torch.stack(
            [x[at : at + length].mean(0) if takes_mean else x[at] for at, length in batch.sequences()]
        )
        return classifier(norm(activation(dense(pooled))))

    return head
