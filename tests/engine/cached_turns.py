"""Random trees of requests over a tiny model, and the check that a reply's log-probabilities are those
of a run without any cache. What the tests of exactness share.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from tests.models.stepping import run_schedule, whole
from tests.models.tiny_models import VOCABULARY, by_id, make_reference

from stoker.core import Event, GenerationRequest, PromptEvent, SamplingParams, TokenEvent
from stoker.engine import Engine
from stoker.kv.blocks import BLOCK_SIZE
from stoker.kv.paged import PagedKV
from stoker.kv.paged_native import NativePagedKV
from stoker.models import load_model
from stoker.models.formats import open_checkpoint
from stoker.models.native_decoder import NativeDecoder, accelerate

CONTEXT = 512
TOLERANCE = 1e-5  # of log-probabilities, in nats
# Full attention, a window of 6 in every layer, and windows in most layers.
CASES = ("llama-plain", "mistral-window", "gemma3")


@pytest.fixture(scope="module", params=[*CASES, "gemma3 in torch"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    name, _, in_torch = request.param.partition(" in ")
    case = by_id()[name]
    case = dataclasses.replace(case, config=case.config | {"max_position_embeddings": CONTEXT}, lengths=(3,))
    folder = make_reference(case, tmp_path_factory.mktemp("cache")).folder
    decoder = load_model(open_checkpoint(folder))
    return decoder if in_torch else accelerate(decoder)


def make_kv(model: Any, num_blocks: int) -> Any:
    layout = NativePagedKV if isinstance(model, NativeDecoder) else PagedKV
    return layout(model.facts.layers, num_blocks=num_blocks)


@dataclasses.dataclass(frozen=True)
class Turn:
    """One request: the beginning of an earlier conversation (a share of it), then new tokens."""

    base: int  # counted back from the newest conversation
    keep: float
    tail: tuple[int, ...]
    max_tokens: int
    session: str | None
    namespace: str
    with_next: bool  # runs beside the next one


def _tail(length: int, seed: int) -> tuple[int, ...]:
    """Few different tokens and few seeds, so that branches part inside blocks, and meet again."""
    return tuple(random.Random(seed).choices((1, 2), k=length))


TURN = st.builds(
    Turn,
    base=st.integers(1, 6),
    keep=st.one_of(st.just(1.0), st.floats(0, 1)),
    tail=st.builds(_tail, st.integers(1, 140), st.integers(0, 9)),
    max_tokens=st.integers(1, 12),
    session=st.sampled_from([None, "a", "b"]),
    namespace=st.sampled_from(["", "", "", "x"]),
    with_next=st.booleans(),
)


def groups(turns: list[Turn]) -> Iterator[list[Turn]]:
    """Those that run beside each other."""
    group: list[Turn] = []
    for turn in turns:
        group.append(turn)
        if not turn.with_next:
            yield group
            group = []
    if group:
        yield group


class Talk:
    """The conversations so far; every reply is checked against a run without a cache."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._conversations: list[list[int]] = []
        self.newest: list[int] = []
        self.newest_namespace = ""

    def go_on(self, engine: Engine, turns: list[Turn]) -> int:
        """Runs them at once. Returns how many tokens of their prompts came from a cache."""
        running = [(prompt, engine.submit(_request(turn, prompt))) for turn, prompt in self._prompts(turns)]
        # All are read first: the native kernels have one caller at a time.
        read = [(prompt, list(chain(*handle.batches_blocking()))) for prompt, handle in running]
        cached = 0
        for turn, (prompt, events) in zip(turns, read, strict=True):
            self._conversations.append(check(self._model, turn.max_tokens, prompt, events))
            cached += sum(event.cached_tokens for event in events if isinstance(event, PromptEvent))
        self.newest, self.newest_namespace = self._conversations[-1], turns[-1].namespace
        return cached

    def _prompts(self, turns: list[Turn]) -> Iterator[tuple[Turn, list[int]]]:
        known = self._conversations
        for turn in turns:
            base = known[-min(turn.base, len(known))] if known else []
            yield turn, [*base[: int(turn.keep * len(base))], *turn.tail][: CONTEXT - 20]


def _request(turn: Turn, prompt: list[int]) -> GenerationRequest:
    return GenerationRequest(
        id="r",
        prompt_ids=tuple(prompt),
        sampling=SamplingParams(temperature=1.0, seed=len(prompt), logprobs=VOCABULARY),
        max_tokens=turn.max_tokens,
        session=turn.session,
        namespace=turn.namespace,
    )


def check(model: Any, num_tokens: int, prompt: list[int], events: list[Event]) -> list[int]:
    """Every position of the reply; returns prompt and reply."""
    (begun,) = [event for event in events if isinstance(event, PromptEvent)]
    tokens = [event for event in events if isinstance(event, TokenEvent)]
    assert len(tokens) == num_tokens
    reply = [event.token_id for event in tokens]
    sequence = prompt + reply[:-1]
    plain_kv = make_kv(model, -(-len(sequence) // BLOCK_SIZE))
    (logits,) = run_schedule(model, plain_kv, [sequence], whole([len(sequence)]))
    expected = logits[len(prompt) - 1 :].double().log_softmax(-1)
    for event, row in zip(tokens, expected, strict=True):
        found = {candidate.token_id: candidate.logprob for candidate in event.top}
        assert len(found) == VOCABULARY
        got = torch.tensor([found[i] for i in range(VOCABULARY)], dtype=torch.float64)
        assert float((got - row).abs().max()) < TOLERANCE
    assert 0 <= begun.cached_tokens < len(prompt)
    return prompt + reply
