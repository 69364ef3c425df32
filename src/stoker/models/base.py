"""The contract of a model family: a step of ragged rows in, logits out."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from stoker.kv.base import KVLayout, LayerSpec


@dataclass(frozen=True, slots=True)
class StepBatch:
    """The tokens of one engine step, rows concatenated. T tokens, L positions that need logits.

    There is no prefill and no decode here, only tokens not yet computed: a decoding row
    brings one, a row in prefill brings a chunk. Plain arrays: tensors so small cost more to make
    than the native kernels' step leaves time for.
    """

    token_ids: array[int]  # [T], like the others of type "q"
    positions: array[int]  # [T], position of each token in its own row
    logits_at: array[int]  # [L], indices into T
    plan: Any  # KVLayout.plan of the same spans

    def tensors(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The three as int64 tensors, moved together."""
        together = torch.frombuffer(self.token_ids + self.positions + self.logits_at, dtype=torch.int64)
        together, count = together.to(device), len(self.token_ids)
        return together[:count], together[count : 2 * count], together[2 * count :]


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


@runtime_checkable
class FindsLikeliest(Protocol):
    """A CausalLM that can tell the likeliest token more cheaply than all logits."""

    def forward_likeliest(self, batch: StepBatch, kv: KVLayout) -> list[tuple[int, float]]:
        """`forward`, and L pairs: of each row of logits the first of the largest, its index and itself, which
        is NaN if any logit of the row is."""
        ...
