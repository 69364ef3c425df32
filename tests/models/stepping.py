"""Drives a model the way the engine does, along a schedule written down by the test."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import torch

from stoker.kv.base import RowSpan
from stoker.models.base import CausalLM, StepBatch

Schedule = Sequence[Sequence[tuple[int, int]]]  # steps of (row, number of its next tokens)


def run_schedule(
    model: CausalLM, kv: Any, sequences: Sequence[Sequence[int]], schedule: Schedule
) -> list[torch.Tensor]:
    """Logits of every token of every sequence, [length, vocab_size] each."""
    rows = [kv.new_row() for _ in sequences]
    done = [0] * len(sequences)
    logits: list[list[torch.Tensor]] = [[] for _ in sequences]
    for step in schedule:
        spans, token_ids, positions = [], [], []
        for index, length in step:
            start, end = done[index], done[index] + length
            assert end <= len(sequences[index])
            kv.reserve(rows[index], end)
            spans.append(RowSpan(rows[index], start, length))
            token_ids += sequences[index][start:end]
            positions += range(start, end)
            done[index] = end
        batch = StepBatch(
            array("q", token_ids),
            array("q", positions),
            array("q", range(len(token_ids))),
            kv.plan(spans),
        )
        with torch.inference_mode():
            out = model.forward(batch, kv).clone()
        assert out.dtype == torch.float32
        for (index, _), part in zip(step, out.split([length for _, length in step]), strict=True):
            logits[index].append(part)
    return [torch.cat(parts) for parts in logits]


def whole(lengths: Sequence[int]) -> Schedule:
    """Each row alone, in one step."""
    return [[(row, length)] for row, length in enumerate(lengths)]


def chunked(lengths: Sequence[int], size: int = 5) -> Schedule:
    """Each row alone, in chunks."""
    return [
        [(row, min(size, length - start))]
        for row, length in enumerate(lengths)
        for start in range(0, length, size)
    ]


def ragged(lengths: Sequence[int]) -> Schedule:
    """All rows of unequal lengths in one step."""
    return [list(enumerate(lengths))]


def mixed(lengths: Sequence[int]) -> Schedule:
    """Rows join one step after the other with a chunk of 4, then go on alone token by token,
    in another order than they came: chunks and single tokens share most steps."""
    left = list(lengths)
    steps = []
    while any(left):
        step = []
        for row in reversed(range(len(left))):
            fresh = left[row] == lengths[row]
            joins = fresh and len(steps) >= 2 * row
            length = min(left[row], 4 if joins else 1) if joins or not fresh else 0
            if length:
                step.append((row, length))
                left[row] -= length
        steps.append(step)
    return steps


SCHEDULES = {
    "whole": whole,
    "chunked": chunked,
    "token_by_token": lambda lengths: chunked(lengths, 1),
    "ragged": ragged,
    "mixed": mixed,
}
