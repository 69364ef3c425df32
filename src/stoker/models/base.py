"""The contract of a model family: a step of ragged rows in, logits out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from stoker.kv.base import KVLayout, LayerSpec


@dataclass(frozen=True, slots=True)
class StepBatch:
    """The tokens of one engine step, rows concatenated. T tokens, L positions that need logits.

    There is no prefill and no decode here, only tokens not yet computed: a decoding row
    brings one, a row in prefill brings a chunk.
    """

    token_ids: torch.Tensor  # int64 [T]
    positions: torch.Tensor  # int64 [T], position of each token in its own row
    logits_at: torch.Tensor  # int64 [L], indices into T
    plan: Any  # KVLayout.plan of the same spans


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the engine must know of a loaded model, family by family the same."""

    vocab_size: int
    max_context: int  # positions the model was made for
    layers: tuple[LayerSpec, ...]


class CausalLM(Protocol):
    facts: ModelFacts

    def forward(self, batch: StepBatch, kv: KVLayout) -> torch.Tensor:
        """Logits, float32 [L, vocab_size], good until the next call. Appends the step's tokens to `kv`."""
        ...
