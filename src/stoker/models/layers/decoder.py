"""The decoder stack: embedding, blocks, final norm and output head. Implements CausalLM."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from stoker.kernels.linear import PackedLinear
from stoker.kv.base import KVLayout
from stoker.models.base import ModelFacts, StepBatch
from stoker.models.layers.attention import Attention, Step
from stoker.models.layers.mlp import FeedForward
from stoker.models.layers.norm import RMSNorm
from stoker.models.layers.rope import Rope

Norm = Callable[[torch.Tensor], torch.Tensor]


class DecoderLayer:
    """Attention and feed-forward, each added to the residual stream.

    Families differ in where they normalize: before each part, after it, or both.
    """

    __slots__ = (
        "attention",
        "attention_norm",
        "attention_post_norm",
        "mlp",
        "mlp_norm",
        "mlp_post_norm",
        "residual_scale",
    )

    def __init__(
        self,
        *,
        attention_norm: Norm,  # to the compute dtype
        attention: Attention,
        mlp_norm: Norm,
        mlp: FeedForward,
        attention_post_norm: RMSNorm | None = None,
        mlp_post_norm: RMSNorm | None = None,
        residual_scale: float = 1.0,  # multiplies what each part adds
    ) -> None:
        self.attention_norm = attention_norm
        self.attention = attention
        self.attention_post_norm = attention_post_norm
        self.mlp_norm = mlp_norm
        self.mlp = mlp
        self.mlp_post_norm = mlp_post_norm
        self.residual_scale = residual_scale

    def forward(self, x: torch.Tensor, step: Step) -> torch.Tensor:
        """[T, hidden] float32 -> the same."""
        part = self.attention.forward(self.attention_norm(x), step)
        x = self._add(x, part, self.attention_post_norm)
        part = self.mlp.forward(self.mlp_norm(x))
        return self._add(x, part, self.mlp_post_norm)

    def _add(self, x: torch.Tensor, part: torch.Tensor, post_norm: RMSNorm | None) -> torch.Tensor:
        if post_norm is not None:
            part = post_norm(part)
        # float32 + compute dtype gives float32
        return x + part if self.residual_scale == 1.0 else x + part * self.residual_scale


class Decoder:
    """A whole model. `nbytes` is the memory its weights hold."""

    __slots__ = (
        "dtype",
        "embedding",
        "embedding_scale",
        "facts",
        "head",
        "layers",
        "logit_scale",
        "logit_softcap",
        "nbytes",
        "norm",
        "ropes",
    )

    def __init__(
        self,
        *,
        embedding: PackedLinear,
        layers: Sequence[DecoderLayer],
        ropes: Sequence[Rope],
        norm: RMSNorm,
        head: PackedLinear,  # the same object as `embedding` when they are tied
        max_context: int,
        dtype: torch.dtype,  # compute dtype
        nbytes: int,
        embedding_scale: float = 1.0,
        logit_scale: float = 1.0,
        logit_softcap: float | None = None,
    ) -> None:
        self.embedding = embedding
        self.layers = tuple(layers)
        self.ropes = tuple(ropes)
        self.norm = norm
        self.head = head
        self.dtype = dtype
        self.nbytes = nbytes
        # Rounded as a tensor of that dtype would be: Gemma was trained with the rounded scale.
        self.embedding_scale = torch.tensor(embedding_scale, dtype=dtype).item()
        self.logit_scale = logit_scale
        self.logit_softcap = logit_softcap
        self.facts = ModelFacts(
            vocab_size=head.out_features,
            max_context=max_context,
            layers=tuple(layer.attention.spec for layer in self.layers),
        )

    def forward(self, batch: StepBatch, kv: KVLayout) -> torch.Tensor:
        """Logits, float32 [L, vocab_size]. Appends the step's tokens to `kv`."""
        token_ids, positions, logits_at = batch.tensors(self.norm.weight.device)
        step = Step(kv, batch.plan, tuple(rope.at(positions) for rope in self.ropes))
        x = self.embedding.rows(token_ids).float()
        if self.embedding_scale != 1.0:
            x = x * self.embedding_scale
        for layer in self.layers:
            x = layer.forward(x, step)
        return self._logits(x[logits_at])

    def _logits(self, x: torch.Tensor) -> torch.Tensor:
        """[L, hidden] -> [L, vocab_size]; L may be 0 (a prefill chunk that is not the last)."""
        if x.shape[0] == 0:
            return x.new_empty(0, self.facts.vocab_size)
        logits = self.head(self.norm(x)).float()
        if self.logit_scale != 1.0:
            logits = logits * self.logit_scale
        if self.logit_softcap is not None:
            logits = self.logit_softcap * torch.tanh(logits / self.logit_softcap)
        return logits
