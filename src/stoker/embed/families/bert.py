"""BERT and its relatives: MiniLM, BGE, E5, GTE (all plain BERT), RoBERTa, XLM-R (multilingual E5, BGE-M3).

References: arXiv:1810.04805, arXiv:1907.11692, arXiv:1911.02116; transformers' BertModel, XLMRobertaModel.
"""

from __future__ import annotations

import torch

from stoker.embed.encoder import Head, Steps
from stoker.embed.packing import PackedBatch, attend
from stoker.embed.weights import EncoderWeights, LayerNorm
from stoker.errors import UnsupportedModel
from stoker.kernels.activations import Activation
from stoker.kernels.affine import Affine
from stoker.models.hyperparameters import required_int
from stoker.models.layers.mlp import find_activation
from stoker.models.weights import Checkpoint

MODEL_TYPES = ("bert", "roberta", "xlm-roberta", "camembert")

_ROOTS = ("", "bert.", "roberta.")
_PROBE = "embeddings.word_embeddings.weight"


class BertLayer:
    """Attention and feed-forward, each followed by the norm of the sum (post-norm)."""

    __slots__ = ("activation", "attention_norm", "down", "mlp_norm", "num_heads", "output", "qkv", "up")

    def __init__(
        self, weights: EncoderWeights, name: str, hidden: int, inner: int, num_heads: int, eps: float
    ) -> None:
        self.num_heads = num_heads
        attention = f"{name}.attention"
        parts = [f"{attention}.self.{part}" for part in ("query", "key", "value")]
        self.qkv: Affine = weights.fused(parts, [hidden] * 3, hidden)
        self.output = weights.linear(f"{attention}.output.dense", hidden, hidden)
        self.attention_norm = weights.layer_norm(f"{attention}.output.LayerNorm", hidden, eps)
        self.up = weights.linear(f"{name}.intermediate.dense", inner, hidden)
        self.down = weights.linear(f"{name}.output.dense", hidden, inner)
        self.mlp_norm: LayerNorm = weights.layer_norm(f"{name}.output.LayerNorm", hidden, eps)
        self.activation: Activation = find_activation(weights.config.get("hidden_act", "gelu"))

    def forward(self, x: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        """[T, hidden] -> the same."""
        q, k, v = self.qkv(x).view(len(x), 3, self.num_heads, -1).unbind(1)
        attended = attend(q, k, v, batch.runs, scale=q.shape[-1] ** -0.5)
        x = self.attention_norm(self.output(attended.flatten(1), residual=x))
        return self.mlp_norm(self.down(self.up(x, activation=self.activation), residual=x))


class BertEncoder:
    is_parallel = True

    def __init__(self, weights: EncoderWeights) -> None:
        config = weights.config
        kind = config.get("position_embedding_type") or "absolute"
        if kind != "absolute":
            raise UnsupportedModel(f"Position embeddings of type {kind!r} are not supported.")
        hidden = self.hidden_size = required_int(config, "hidden_size")
        inner = required_int(config, "intermediate_size")
        num_positions = required_int(config, "max_position_embeddings")
        eps = float(config.get("layer_norm_eps", 1e-12))
        # RoBERTa counts positions from the one after its padding token's id.
        padding = config.get("pad_token_id")
        is_bert = config.get("model_type") == "bert"
        self.first_position = 0 if is_bert else (1 if padding is None else int(padding)) + 1
        self.max_tokens = num_positions - self.first_position
        self.vocab_size = required_int(config, "vocab_size")

        self.words = weights.table("embeddings.word_embeddings", self.vocab_size, hidden)
        self.places = weights.table("embeddings.position_embeddings", num_positions, hidden)
        num_types = int(config.get("type_vocab_size", 2))
        self.types = weights.table("embeddings.token_type_embeddings", num_types, hidden)
        self.norm = weights.layer_norm("embeddings.LayerNorm", hidden, eps)
        heads = required_int(config, "num_attention_heads")
        self.layers = [
            BertLayer(weights, f"encoder.layer.{index}", hidden, inner, heads, eps)
            for index in range(required_int(config, "num_hidden_layers"))
        ]
        self.layer_parameters = 4 * hidden * hidden + 2 * hidden * inner
        self.nbytes = weights.nbytes

    def steps(self, batch: PackedBatch) -> Steps:
        x = self.words[batch.token_ids] + self.places[batch.positions + self.first_position]
        # RoBERTa has one type only, and pairs are told apart by their separators.
        has_types = batch.token_types is not None and len(self.types) > 1
        x = self.norm(x + (self.types[batch.token_types] if has_types else self.types[0]))
        for layer in self.layers:
            yield
            x = layer.forward(x, batch)
        return x


def build(checkpoint: Checkpoint, dtype: torch.dtype, device: str) -> BertEncoder:
    return BertEncoder(EncoderWeights(checkpoint, _ROOTS, _PROBE, dtype=dtype, device=device))


def read_head(checkpoint: Checkpoint, num_labels: int, device: str) -> Head:
    """BERT: tanh of the pooler, then the classifier. RoBERTa: the same within the classifier."""
    top = EncoderWeights(checkpoint, ("",), "", device=device)
    hidden = required_int(checkpoint.config, "hidden_size")
    if "classifier.out_proj.weight" in checkpoint:
        dense = top.linear("classifier.dense", hidden, hidden)
        classifier = top.linear("classifier.out_proj", num_labels, hidden)
    else:
        dense = top.linear("bert.pooler.dense", hidden, hidden)
        classifier = top.linear("classifier", num_labels, hidden)

    def head(x: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        firsts = torch.tensor([first for first, _ in batch.sequences()], device=x.device)
        return classifier(torch.tanh(dense(x[firsts])))

    return head
