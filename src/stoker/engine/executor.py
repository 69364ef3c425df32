"""Runs one scheduled step on the model and samples. The only engine file that makes tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from stoker.engine.grammar import MaskMaker
from stoker.engine.sampling import RowFailure, Sampled, sample
from stoker.engine.scheduler import Scheduled
from stoker.kv.base import KVLayout, RowSpan
from stoker.models.base import CausalLM, StepBatch


class Executor:
    def __init__(self, model: CausalLM, kv: KVLayout, device: torch.device) -> None:
        self._model = model
        self._kv = kv
        self._device = device
        self._masks = MaskMaker()

    def prepare(self, step: Sequence[Scheduled]) -> StepBatch:
        """The step as tensors: everything that can be done before the model runs."""
        token_ids: list[int] = []
        positions: list[int] = []
        logits_at: list[int] = []
        spans: list[RowSpan] = []
        for item in step:
            row, start = item.row, item.row.num_computed
            end = start + item.num_tokens
            token_ids += row.tokens[start:end]
            positions += range(start, end)
            spans.append(RowSpan(row.kv, start, item.num_tokens))
            if item.completes:
                logits_at.append(len(token_ids) - 1)
        # One small tensor by way of NumPy is several times quicker than three of torch's own.
        numbers = np.array(token_ids + positions + logits_at, dtype=np.int64)
        count, together = len(token_ids), torch.from_numpy(numbers).to(self._device)
        return StepBatch(
            together[:count], together[count : 2 * count], together[2 * count :], self._kv.plan(spans)
        )

    def run(self, step: Sequence[Scheduled], batch: StepBatch) -> list[Sampled | RowFailure | None]:
        """Computes the step, in the caller's `torch.inference_mode`. One result per item, None where the
        row has more to compute."""
        complete = [item.row for item in step if item.completes]
        self._masks.begin([row.matcher for row in complete if row.matcher])
        logits = self._model.forward(batch, self._kv)
        if not complete:
            return [None] * len(step)
        samplers, matchers = [row.sampler for row in complete], [row.matcher for row in complete]
        sampled = iter(sample(logits, samplers, matchers, self._masks.finish))
        return [next(sampled) if item.completes else None for item in step]
