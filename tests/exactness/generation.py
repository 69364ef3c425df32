"""Greedy answers with their log-probabilities, straight from stoker's engine."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from stoker.core import ErrorEvent, GenerationRequest, SamplingParams, TokenEvent
from stoker.engine import Engine

Key = TypeVar("Key", bound=Hashable)
NUM_TOP = 20


@dataclass
class Answer:
    """Generated ids, and at each of them the NUM_TOP log-probabilities by token id."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[dict[int, float]] = field(default_factory=list)


def generate(engine: Engine, prompts: Mapping[Key, Sequence[int]], num_tokens: int) -> dict[Key, Answer]:
    """All prompts submitted at once, so that rows join, leave and share steps. No id ends a row early."""
    sampling = SamplingParams(temperature=0, logprobs=NUM_TOP)
    handles = {
        key: engine.submit(GenerationRequest(str(key), tuple(ids), sampling=sampling, max_tokens=num_tokens))
        for key, ids in prompts.items()
    }
    answers: dict[Key, Answer] = {key: Answer() for key in prompts}
    for key, handle in handles.items():
        for events in handle.batches_blocking():
            for event in events:
                assert not isinstance(event, ErrorEvent), event.message
                if isinstance(event, TokenEvent):
                    answers[key].ids.append(event.token_id)
                    answers[key].logprobs.append({top.token_id: top.logprob for top in event.top})
    return answers
