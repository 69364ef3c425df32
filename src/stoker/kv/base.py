"""The contract of a KV layout: how keys and values of many rows are kept and attended.

A layout owns storage for every layer. A row is one sequence; the engine reserves room for
the tokens of the next step, plans the step once, and each layer then appends and attends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch


@dataclass(frozen=True, slots=True)
class LayerSpec:
    """What one attention layer keeps per token."""

    num_kv_heads: int
    head_dim: int
    window: int | None = None  # sliding window in tokens (a query sees itself and window-1 before)


@dataclass(frozen=True, slots=True)
class RowSpan:
    """The tokens of one row in a step: positions start .. start+length-1, contiguous in the batch."""

    row: Any  # the layout's own handle of the row
    start: int  # tokens of the row already in the cache
    length: int  # tokens of the row in this step, at least 1


class KVLayout(Protocol):
    """Keys and values of all rows. Shapes: T tokens of the step, H query heads, J key heads, D head size."""

    def new_row(self) -> Any:
        """An empty row. Valid until `free`."""
        ...

    def fits(self, num_tokens: int) -> bool:
        """Whether a new row of `num_tokens` would find room now."""
        ...

    def reserve(self, row: Any, num_tokens: int) -> None:
        """Room for the row to hold `num_tokens` in all. Raises OutOfMemory before any change."""
        ...

    def adopt(self, blocks: list[int], num_tokens: int) -> Any:
        """A new row whose first `num_tokens` are what these blocks hold; they stay shared."""
        ...

    def fork(self, row: Any) -> Any:
        """A second row with the same contents; storage is shared until either writes."""
        ...

    def trim(self, row: Any, num_tokens: int) -> None:
        """Forget everything after the first `num_tokens`."""
        ...

    def free(self, row: Any) -> None: ...

    def plan(self, spans: Sequence[RowSpan]) -> Any:
        """What every layer of this step needs to append and attend; made once per step.
        The spans' rows must have been reserved. Valid for one step."""
        ...

    def attend(
        self,
        layer: int,
        q: torch.Tensor,  # [T, H, D]
        k: torch.Tensor,  # [T, J, D]
        v: torch.Tensor,  # [T, J, D]
        plan: Any,
        *,
        scale: float,
        softcap: float | None = None,  # logits become softcap * tanh(logits / softcap)
    ) -> torch.Tensor:
        """Append k and v for the step's tokens, then causal attention of each token over its
        own row (within the layer's window). Returns [T, H, D] in q's dtype."""
        ...
