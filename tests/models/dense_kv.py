"""The smallest KV layout that keeps the contract: a list of tensors per row, naive attention.

Independent of the real layouts, so that family tests do not inherit their mistakes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from stoker.kv.base import LayerSpec, RowSpan


@dataclass(eq=False)
class DenseRow:
    num_tokens: int = 0
    keys: dict[int, torch.Tensor] = field(default_factory=dict)  # layer -> [tokens, J, D]
    values: dict[int, torch.Tensor] = field(default_factory=dict)


class DenseKV:
    def __init__(self, layers: Sequence[LayerSpec]) -> None:
        self.layers = layers

    def new_row(self) -> DenseRow:
        return DenseRow()

    def reserve(self, row: DenseRow, num_tokens: int) -> None:
        row.num_tokens = max(row.num_tokens, num_tokens)

    def plan(self, spans: Sequence[RowSpan]) -> Sequence[RowSpan]:
        assert all(span.start + span.length <= span.row.num_tokens for span in spans)
        return spans

    def attend(
        self,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        plan: Sequence[RowSpan],
        *,
        scale: float,
        softcap: float | None = None,
    ) -> torch.Tensor:
        out = torch.empty(q.shape, dtype=q.dtype)
        first = 0
        for span in plan:
            rows = slice(first, first + span.length)
            first += span.length
            old_k = span.row.keys.get(layer, k[:0])
            old_v = span.row.values.get(layer, v[:0])
            assert old_k.shape[0] == span.start
            span.row.keys[layer] = all_k = torch.cat((old_k, k[rows]))
            span.row.values[layer] = all_v = torch.cat((old_v, v[rows]))
            group = q.shape[1] // k.shape[1]
            scores = torch.einsum("thd,shd->hts", q[rows], all_k.repeat_interleave(group, 1)).float() * scale
            if softcap is not None:
                scores = softcap * torch.tanh(scores / softcap)
            queries = torch.arange(span.start, span.start + span.length)[:, None]
            keys = torch.arange(all_k.shape[0])[None, :]
            hidden = keys > queries
            window = self.layers[layer].window
            if window is not None:
                hidden |= keys <= queries - window
            weights = scores.masked_fill(hidden, float("-inf")).softmax(-1).to(q.dtype)
            out[rows] = torch.einsum("hts,shd->thd", weights, all_v.repeat_interleave(group, 1))
        return out
