"""The engine on a tiny real model: neighbours, cancellation, queueing, failure, exclusive work."""

from __future__ import annotations

import asyncio
import threading
import time
from array import array

import pytest
import torch
from tests.cli.tiny import make_tiny_model

from stoker.core import ErrorEvent, FinishEvent, GenerationRequest, PromptEvent, SamplingParams, TokenEvent
from stoker.engine import Engine, EngineConfig
from stoker.errors import ContextLengthExceeded, QueueFull, Unavailable
from stoker.kv.base import RowSpan
from stoker.kv.paged import PagedKV
from stoker.kv.paged_native import NativePagedKV
from stoker.models import load_model
from stoker.models.base import StepBatch
from stoker.models.formats import open_checkpoint
from stoker.models.native_decoder import NativeDecoder, accelerate

GREEDY = SamplingParams(temperature=0)


@pytest.fixture(scope="module", params=["torch", "native"])
def model(request, tmp_path_factory):
    folder = make_tiny_model(tmp_path_factory.mktemp("tiny"))
    decoder = load_model(open_checkpoint(folder), max_context=256)
    if request.param == "torch":
        return decoder
    model = accelerate(decoder)
    if model is decoder:
        pytest.skip("no native kernels were built")
    return model


def make_kv(model, num_blocks):
    layout = NativePagedKV if isinstance(model, NativeDecoder) else PagedKV
    return layout(model.facts.layers, num_blocks=num_blocks)


class GatedModel:
    """The model behind a gate, so that a test decides when steps run; it can be told to fail."""

    def __init__(self, model):
        self.model, self.facts = model, model.facts
        self.gate = threading.Event()
        self.gate.set()
        self.failures = 0
        self.arrivals = 0  # steps that came to the gate
        self.steps = 0  # and passed it

    def forward(self, batch, kv):
        self.arrivals += 1
        assert self.gate.wait(30)
        self.steps += 1
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the device is on fire")
        return self.model.forward(batch, kv)


@pytest.fixture
def engines(model):
    """Starts engines and stops them afterwards."""
    started = []

    def start(target=model, *, num_blocks=64, **config):
        engine = Engine(target, make_kv(model, num_blocks), EngineConfig(**config))
        engine.start()
        started.append(engine)
        return engine

    yield start
    for engine in started:
        engine.close()


def prompt(seed, length):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(0, 90, (length,), generator=generator).tolist())


def request(ids, max_tokens=12, sampling=GREEDY, **kwargs):
    return GenerationRequest(id="r", prompt_ids=ids, sampling=sampling, max_tokens=max_tokens, **kwargs)


def collect(handle):
    """Tokens by choice, and all events."""
    events = [event for batch in handle.batches_blocking() for event in batch]
    tokens = {}
    for event in events:
        if isinstance(event, TokenEvent):
            tokens.setdefault(event.index, []).append(event.token_id)
    return tokens, events


def reference_greedy(model, ids, count):
    """Greedy decoding without the engine: the whole sequence computed again for each token."""
    tokens = list(ids)
    for _ in range(count):
        kv = make_kv(model, 16)
        row = kv.new_row()
        kv.reserve(row, len(tokens))
        batch = StepBatch(
            array("q", tokens),
            array("q", range(len(tokens))),
            array("q", [len(tokens) - 1]),
            kv.plan([RowSpan(row, 0, len(tokens))]),
        )
        tokens.append(int(model.forward(batch, kv)[0].argmax()))
    return tokens[len(ids) :]


PROMPTS = [prompt(seed, length) for seed, length in enumerate((5, 1, 17, 40, 3, 70, 9, 33))]


@pytest.fixture(scope="module")
def expected(model):
    return [reference_greedy(model, ids, 12) for ids in PROMPTS]


def test_alone_and_in_a_full_batch_every_row_says_the_same(engines, expected):
    engine = engines(prefill_chunk=16)
    for ids, tokens in zip(PROMPTS, expected, strict=True):
        assert collect(engine.submit(request(ids)))[0][0] == tokens
    handles = [engine.submit(request(ids)) for ids in PROMPTS]
    for handle, tokens in zip(handles, expected, strict=True):
        assert collect(handle)[0][0] == tokens


def test_rows_that_join_late_or_lose_their_neighbours_say_the_same(model, engines, expected):
    gated = GatedModel(model)
    engine = engines(gated, prefill_chunk=16)
    early = [engine.submit(request(ids)) for ids in PROMPTS[:4]]
    doomed = engine.submit(request(prompt(99, 20), max_tokens=200))
    deadline = time.monotonic() + 20
    while gated.steps < 6 and time.monotonic() < deadline:
        time.sleep(0.001)
    late = [engine.submit(request(ids)) for ids in PROMPTS[4:7]]
    doomed.cancel()
    for handle, tokens in zip([*early, *late], expected[:7], strict=True):
        assert collect(handle)[0][0] == tokens


def test_events_come_in_order(engines):
    engine = engines()
    _, events = collect(engine.submit(request(PROMPTS[0], max_tokens=3)))
    assert [type(event) for event in events] == [PromptEvent, TokenEvent, TokenEvent, TokenEvent, FinishEvent]
    assert events[0] == PromptEvent(5, 0)
    assert events[-1] == FinishEvent(0, "length")


def test_an_end_token_is_delivered_and_ends_the_row(engines, expected):
    engine = engines()
    ending = expected[2][4]
    first = expected[2].index(ending)
    _, events = collect(engine.submit(request(PROMPTS[2], eos_ids=frozenset([ending]))))
    assert events[-2] == TokenEvent(0, ending, is_eos=True)
    assert events[-1] == FinishEvent(0, "stop")
    assert len(events) == first + 3


def test_choices_share_the_prompt_and_greedy_ones_agree(engines, expected):
    engine = engines(prefill_chunk=16)
    before = engine.stats().prompt_tokens
    tokens, events = collect(engine.submit(request(PROMPTS[5], n=3)))
    assert tokens == {0: expected[5], 1: expected[5], 2: expected[5]}
    assert sum(isinstance(event, PromptEvent) for event in events) == 1
    # 70 prompt tokens once, and the last one again for each sibling.
    assert engine.stats().prompt_tokens - before == 70 + 2


def test_a_seed_gives_the_same_tokens_again_and_choices_differ(engines):
    engine = engines()
    sampling = SamplingParams(temperature=1.5, seed=7)
    first = collect(engine.submit(request(PROMPTS[3], sampling=sampling, n=3, max_tokens=30)))[0]
    second = collect(engine.submit(request(PROMPTS[3], sampling=sampling, n=3, max_tokens=30)))[0]
    assert first == second
    assert len({tuple(tokens) for tokens in first.values()}) == 3


def test_the_context_bounds_prompt_and_reply(engines):
    engine = engines(max_context=64)
    with pytest.raises(ContextLengthExceeded, match=r"64 tokens.*64") as refused:
        engine.submit(request(prompt(1, 64)))
    assert refused.value.code == "context_over_budget"  # the operator's cap, not the model's
    with pytest.raises(ContextLengthExceeded) as refused:
        engines().submit(request(prompt(1, 256)))
    assert refused.value.code == "context_length_exceeded"
    tokens, events = collect(engine.submit(request(prompt(1, 62), max_tokens=100)))
    assert len(tokens[0]) == 2
    assert events[-1] == FinishEvent(0, "length")


def test_cancelling_frees_the_row_within_a_step(model, engines):
    gated = GatedModel(model)
    engine = engines(gated)
    handle = engine.submit(request(PROMPTS[0], max_tokens=200))
    stream = handle.batches_blocking()
    next(stream)
    gated.gate.clear()
    handle.cancel()
    steps = gated.steps
    gated.gate.set()
    rest = [event for batch in stream for event in batch]
    assert rest[-1] == FinishEvent(0, "cancelled")
    assert gated.steps <= steps + 2  # the one under way, and the one waiting at the gate
    assert engine.stats().kv_bytes == 0
    assert engine.stats().active_rows == 0


def test_stopping_one_choice_leaves_the_others(model, engines):
    gated = GatedModel(model)
    handle = engines(gated).submit(request(PROMPTS[0], n=2, max_tokens=100))
    stream = handle.batches_blocking()
    seen = list(next(stream))
    gated.gate.clear()
    handle.stop(0)
    gated.gate.set()
    seen += [event for batch in stream for event in batch]
    assert sum(isinstance(e, TokenEvent) and e.index == 1 for e in seen) == 100
    assert [e for e in seen if isinstance(e, FinishEvent)] == [FinishEvent(1, "length")]


def test_a_full_queue_refuses_and_recovers(model, engines):
    gated = GatedModel(model)
    engine = engines(gated, max_rows=1, max_queued=3)
    gated.gate.clear()
    running = engine.submit(request(PROMPTS[0], max_tokens=2))
    deadline = time.monotonic() + 20
    while engine.stats().active_rows == 0 and time.monotonic() < deadline:
        time.sleep(0.001)
    waiting = [engine.submit(request(PROMPTS[0], max_tokens=2, n=2)) for _ in range(3)]
    with pytest.raises(QueueFull, match="3 requests"):
        engine.submit(request(PROMPTS[0]))
    waiting[1].cancel()
    gated.gate.set()
    for handle in (running, *waiting):
        collect(handle)
    assert len(collect(engine.submit(request(PROMPTS[0])))[0][0]) == 12


def test_free_places_do_not_count_as_a_queue(model, engines):
    gated = GatedModel(model)
    engine = engines(gated, max_rows=2, max_queued=0)
    gated.gate.clear()
    handles = [engine.submit(request(PROMPTS[0], max_tokens=2)) for _ in range(2)]
    with pytest.raises(QueueFull):
        engine.submit(request(PROMPTS[0]))
    gated.gate.set()
    for handle in handles:
        assert len(collect(handle)[0][0]) == 2


def test_a_cancelled_waiting_request_leaves_the_queue_at_once(model, engines):
    gated = GatedModel(model)
    engine = engines(gated, max_rows=1, max_queued=1)
    running = engine.submit(request(PROMPTS[0], max_tokens=50))
    next(running.batches_blocking())
    waiting = engine.submit(request(PROMPTS[1], max_tokens=2))
    waiting.cancel()
    assert collect(waiting)[1] == [FinishEvent(0, "cancelled")]
    engine.submit(request(PROMPTS[1], max_tokens=2)).cancel()
    running.cancel()


def test_a_failed_step_ends_its_requests_and_not_the_engine(model, engines, expected):
    gated = GatedModel(model)
    engine = engines(gated)
    gated.failures = 1
    _, events = collect(engine.submit(request(PROMPTS[0])))
    assert events == [ErrorEvent("generation failed: the device is on fire")]
    assert engine.stats().kv_bytes == 0
    assert collect(engine.submit(request(PROMPTS[0])))[0][0] == expected[0]


def test_a_row_with_broken_logits_fails_alone(model, engines, expected):
    class Poisoned(GatedModel):
        def forward(self, batch, kv):
            logits = super().forward(batch, kv)
            if batch.token_ids and batch.token_ids[-1] == 91:
                logits[-1] = float("nan")
            return logits

    engine = engines(Poisoned(model))
    healthy = engine.submit(request(PROMPTS[0]))
    broken = engine.submit(request((1, 2, 91)))
    assert isinstance(collect(broken)[1][-1], ErrorEvent)
    assert collect(healthy)[0][0] == expected[0]


def test_when_kv_memory_is_short_rows_wait_or_are_computed_again(engines, model):
    ids = [prompt(50 + i, 60) for i in range(6)]
    expected = [reference_greedy(model, one, 40) for one in ids]
    engine = engines(num_blocks=9, prefill_chunk=32)  # 288 tokens for 6 rows of 100
    handles = [engine.submit(request(one, max_tokens=40)) for one in ids]
    for handle, tokens in zip(handles, expected, strict=True):
        assert collect(handle)[0][0] == tokens
    assert engine.stats().preemptions > 0
    assert engine.stats().kv_bytes == 0


def test_exclusive_work_runs_between_requests(model, engines, expected):
    gated = GatedModel(model)
    engine = engines(gated)
    running = engine.submit(request(PROMPTS[0]))
    seen = engine.run_exclusive(lambda: (engine.stats().active_rows, threading.current_thread().name))
    late = engine.submit(request(PROMPTS[1]))
    assert seen.result(timeout=30) == (0, "stoker-engine")
    assert collect(running)[0][0] == expected[0]
    assert collect(late)[0][0] == expected[1]
    failing = engine.run_exclusive(lambda: 1 / 0)
    assert isinstance(failing.exception(timeout=30), ZeroDivisionError)


async def test_an_asyncio_reader_gets_everything(engines, expected):
    engine = engines()

    async def read(ids):
        handle, found = engine.submit(request(ids)), []
        while batch := await handle.next_batch():
            found += [event.token_id for event in batch if isinstance(event, TokenEvent)]
        return found

    assert await asyncio.gather(*(read(ids) for ids in PROMPTS)) == expected


def test_closing_lets_rows_finish_or_cancels_them(model, engines):
    gated = GatedModel(model)
    engine = engines(gated)
    finishing = engine.submit(request(PROMPTS[0], max_tokens=20))
    engine.close(timeout_s=30)
    assert len(collect(finishing)[0][0]) == 20
    with pytest.raises(Unavailable):
        engine.submit(request(PROMPTS[0]))

    engine = engines(GatedModel(model))
    endless = engine.submit(request(PROMPTS[0], max_tokens=230))
    next(endless.batches_blocking())
    engine.close(timeout_s=0)
    assert collect(endless)[1][-1] in (FinishEvent(0, "cancelled"), FinishEvent(0, "length"))


def test_a_prefix_is_computed_once_and_answers_stay_the_same(model, engines):
    engine = engines(prefix_cache_bytes=10**9, prefill_chunk=32)
    opening = prompt(7, 90)
    asked = [opening + prompt(100 + i, 5 + i) for i in range(6)]
    expected = [reference_greedy(model, ids, 12) for ids in asked]
    for ids, tokens in zip(asked, expected, strict=True):
        found, events = collect(engine.submit(request(ids)))
        assert found[0] == tokens
        cached = events[0].cached_tokens
        assert cached == (0 if ids is asked[0] else 90)
    # The next turn of a conversation finds prompt and reply; its last token is not in the cache.
    turn = asked[2] + tuple(expected[2]) + prompt(8, 9)
    tokens, events = collect(engine.submit(request(turn)))
    assert events[0].cached_tokens == len(asked[2]) + 11
    assert tokens[0] == reference_greedy(model, turn, 12)
    # The same again: everything but the last token, whose logits are needed.
    tokens_again, events = collect(engine.submit(request(turn)))
    assert (tokens_again, events[0].cached_tokens) == (tokens, len(turn) - 1)
    stats = engine.stats()
    assert (stats.prefix_hits, stats.prefix_misses) == (7, 1)
    assert stats.kv_bytes == stats.prefix_bytes > 0


def test_the_cache_gives_way_to_running_rows(model, engines):
    """B38: conversations with secrets of their own, far more than the cache holds, many at once."""
    ids = [prompt(200 + i, 40) for i in range(12)]
    expected = [reference_greedy(model, one, 12) for one in ids]
    engine = engines(num_blocks=10, prefix_cache_bytes=10**9, prefill_chunk=32)
    chooser = torch.Generator().manual_seed(1)
    order = torch.randint(0, 12, (60,), generator=chooser).tolist()
    for start in range(0, 60, 6):
        handles = [(i, engine.submit(request(ids[i]))) for i in order[start : start + 6]]
        for i, handle in handles:
            assert collect(handle)[0][0] == expected[i]
    stats = engine.stats()
    assert stats.kv_bytes == stats.prefix_bytes


def test_what_a_failed_step_computed_is_not_kept(model, engines):
    gated = GatedModel(model)
    engine = engines(gated, prefix_cache_bytes=10**9)
    gated.failures = 1
    collect(engine.submit(request(PROMPTS[5])))
    assert engine.stats().prefix_entries == 0
