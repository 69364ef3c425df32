"""The cache changes nothing but the time: logits over random trees of histories equal those computed
without it, whatever was shared, branched, trimmed, evicted or computed beside it.
"""

from __future__ import annotations

import dataclasses
from itertools import chain
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.models.stepping import run_schedule, whole
from tests.models.tiny_models import VOCABULARY, by_id, make_reference

from stoker.core import Event, GenerationRequest, PromptEvent, SamplingParams, TokenEvent
from stoker.engine import Engine, EngineConfig
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


TURNS = st.lists(
    st.builds(
        Turn,
        base=st.integers(1, 6),
        keep=st.one_of(st.just(1.0), st.floats(0, 1)),
        # Few different tokens, so that branches part inside blocks too.
        tail=st.lists(st.integers(1, 2), min_size=1, max_size=70).map(tuple),
        max_tokens=st.integers(1, 12),
        session=st.sampled_from([None, "a", "b"]),
        namespace=st.sampled_from(["", "", "", "x"]),
        with_next=st.booleans(),
    ),
    min_size=4,
    max_size=14,
)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(turns=TURNS, max_blocks=st.sampled_from([3, 12, 200]), retention=st.sampled_from(["lru", "cost-size"]))
def test_logits_are_those_without_a_cache(
    model: Any, turns: list[Turn], max_blocks: int, retention: Any
) -> None:
    kv = make_kv(model, 120)
    config = EngineConfig(
        prefill_chunk=48,
        busy_chunk=8,
        max_rows=3,
        prefix_cache_bytes=max_blocks * kv.bytes_per_block,
        cache_retention=retention,
    )
    engine = Engine(model, kv, config)
    engine.start()
    try:
        conversations: list[list[int]] = []
        running: list[tuple[Turn, list[int], Any]] = []
        for turn in turns:
            prompt: list[int] = []
            if conversations:
                prompt = conversations[-min(turn.base, len(conversations))]
            prompt = [*prompt[: int(turn.keep * len(prompt))], *turn.tail][: CONTEXT - 20]
            running.append((turn, prompt, engine.submit(request_for(turn, prompt))))
            if turn.with_next and turn is not turns[-1]:
                continue
            # All are read first: the native kernels have one caller at a time.
            read = [(item, list(chain(*item[2].batches_blocking()))) for item in running]
            conversations += [check(model, turn, prompt, events) for (turn, prompt, _), events in read]
            running.clear()
        assert engine.stats().prefix_entries <= max_blocks
        assert engine.stats().kv_bytes == engine.stats().prefix_bytes
    finally:
        engine.close()


def request_for(turn: Turn, prompt: list[int]) -> GenerationRequest:
    return GenerationRequest(
        id="r",
        prompt_ids=tuple(prompt),
        sampling=SamplingParams(temperature=1.0, seed=len(prompt), logprobs=VOCABULARY),
        max_tokens=turn.max_tokens,
        session=turn.session,
        namespace=turn.namespace,
    )


def check(model: Any, turn: Turn, prompt: list[int], events: list[Event]) -> list[int]:
    """Every position of the reply; the conversation as it is now."""
    (begun,) = [event for event in events if isinstance(event, PromptEvent)]
    tokens = [event for event in events if isinstance(event, TokenEvent)]
    assert len(tokens) == turn.max_tokens
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
