"""Runs one scheduled step on the model and samples."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from stoker.engine.grammar import MaskMaker
from stoker.engine.sampling import RowFailure, Sampled, sample, settle, takes_likeliest
from stoker.engine.scheduler import Scheduled
from stoker.kv.base import KVLayout, RowSpan
from stoker.models.base import CausalLM, FindsLikeliest, StepBatch


class Executor:
    def __init__(self, model: CausalLM, kv: KVLayout) -> None:
        self._model = model
        self._likeliest = model.forward_likeliest if isinstance(model, FindsLikeliest) else None
        self._kv = kv
        self._masks = MaskMaker()

    def prepare(self, step: Sequence[Scheduled]) -> StepBatch:
        """Everything that can be done before the model runs."""
        token_ids, positions, logits_at = array("q"), array("q"), array("q")
        spans: list[RowSpan] = []
        for item in step:
            row, start = item.row, item.row.num_computed
            end = start + item.num_tokens
            token_ids.extend(row.tokens[start:end])
            positions.extend(range(start, end))
            spans.append(RowSpan(row.kv, start, item.num_tokens))
            if item.completes:
                logits_at.append(len(token_ids) - 1)
        return StepBatch(token_ids, positions, logits_at, self._kv.plan(spans))

    def run(self, step: Sequence[Scheduled], batch: StepBatch) -> list[Sampled | RowFailure | None]:
        """Computes the step, in the caller's `torch.inference_mode`. One result per item, None where the
        row has more to compute."""
        complete = [item.row for item in step if item.completes]
        self._masks.begin([row.matcher for row in complete if row.matcher])
        samplers, matchers = [row.sampler for row in complete], [row.matcher for row in complete]
        if self._likeliest is not None and takes_likeliest(samplers, matchers):
            sampled = iter(settle(self._likeliest(batch, self._kv)))
        else:
            logits = self._model.forward(batch, self._kv)
            sampled = iter(sample(logits, samplers, matchers, self._masks.finish))
        return [next(sampled) if item.completes else None for item in step]
