"""The prompt cache from the engine's side: sessions, namespaces, neighbours, bounds, and the KV budget."""

from __future__ import annotations

import random
import threading
import time

import pytest
from tests.cli.tiny import make_tiny_model
from tests.engine.test_engine import GatedModel, collect, make_kv, prompt, reference_greedy, request

from stoker.core import FinishEvent, PromptEvent
from stoker.engine import Engine, EngineConfig
from stoker.errors import OverBudget, QueueFull
from stoker.models import load_model
from stoker.models.formats import open_checkpoint
from stoker.models.native_decoder import accelerate


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = make_tiny_model(tmp_path_factory.mktemp("tiny"))
    return accelerate(load_model(open_checkpoint(folder), max_context=2048))


@pytest.fixture
def engines(model):
    started = []

    def start(target=model, *, num_blocks=256, cache_blocks=10**6, **config):
        kv = make_kv(model, num_blocks)
        cache_bytes = cache_blocks * kv.bytes_per_block
        engine = Engine(target, kv, EngineConfig(prefix_cache_bytes=cache_bytes, **config))
        engine.start()
        started.append(engine)
        return engine

    yield start
    for engine in started:
        engine.close()


def ask(engine, ids, **options):
    """The reply's tokens and how many of the prompt came from the cache."""
    tokens, events = collect(engine.submit(request(ids, **options)))
    (begun,) = [event for event in events if isinstance(event, PromptEvent)]
    return tuple(tokens[0]), begun.cached_tokens


def counters(engine):
    stats = engine.stats()
    return {
        name: getattr(stats, name)
        for name in ("prefix_hits", "prefix_misses", "prefix_scans", "session_hits", "session_misses")
    }


# --- sessions ------------------------------------------------------------------------------------


def test_a_session_goes_on_without_a_search_and_an_edit_falls_back(engines):
    engine = engines()
    first = prompt(1, 50)
    reply, cached = ask(engine, first, session="s")
    assert cached == 0
    second = first + reply + prompt(2, 10)
    reply, cached = ask(engine, second, session="s")
    assert cached == len(first) + 11
    assert counters(engine) == {
        "prefix_hits": 1, "prefix_misses": 1, "prefix_scans": 1, "session_hits": 1, "session_misses": 1,
    }  # fmt: skip
    edited = first + prompt(3, 10)  # the reply was edited: only the first prompt is still right
    assert ask(engine, edited, session="s")[1] == len(first)
    assert ask(engine, second + reply + (5,))[1] == len(second) + 11  # nobody's: others' entries serve
    assert counters(engine) == {
        "prefix_hits": 3, "prefix_misses": 1, "prefix_scans": 3, "session_hits": 1, "session_misses": 2,
    }  # fmt: skip


def test_a_closed_session_starts_anew(engines):
    engine = engines()
    first = prompt(1, 50)
    reply, _ = ask(engine, first, session="s")
    engine.close_session("s")
    engine.close_session("nobody")
    reply, cached = ask(engine, first + reply + (4,), session="s")
    assert cached == 61  # what it stored has stayed
    assert counters(engine)["session_hits"] == 0
    assert counters(engine)["session_misses"] == 2


def test_a_request_under_way_does_not_bring_a_closed_session_back(model, engines):
    gated = GatedModel(model)
    engine = engines(gated)
    ids = prompt(1, 50)
    gated.gate.clear()
    handle = engine.submit(request(ids, max_tokens=20, session="s"))
    deadline = time.monotonic() + 20
    while not gated.arrivals and time.monotonic() < deadline:
        time.sleep(0.001)
    engine.close_session("s")
    gated.gate.set()
    tokens, _ = collect(handle)
    ask(engine, (*ids, *tokens[0]), session="s")
    assert counters(engine)["session_hits"] == 0


def test_sessions_can_be_switched_off(engines):
    engine = engines(use_sessions=False)
    first = prompt(1, 50)
    reply, _ = ask(engine, first, session="s")
    assert ask(engine, first + reply + (4,), session="s")[1] == 61
    assert counters(engine) == {
        "prefix_hits": 1, "prefix_misses": 1, "prefix_scans": 2, "session_hits": 0, "session_misses": 0,
    }  # fmt: skip


# --- isolation -----------------------------------------------------------------------------------


def test_what_one_adapter_computed_is_not_used_for_another(engines):
    """B40: the same prompt under A, B, none, then A again; a hit only where the adapter is the same."""
    engine = engines()
    ids = prompt(1, 70)
    for namespace in ("a", "b", "", "a+b", "b+a"):
        assert ask(engine, ids, namespace=namespace, session="s")[1] == 0
    for namespace in ("a", "", "b+a"):
        assert ask(engine, ids, namespace=namespace, session="s")[1] == 69


def test_conversations_do_not_see_each_other(model, engines):
    """B38 and its kind: 32 conversations of 10 turns at once, a shared opening, a secret each, a cache
    that holds a few of them. Every answer is that of the conversation alone and without a cache."""
    opening = prompt(1, 40)
    num_turns, reply_tokens = 10, 4

    def alone(number):
        tokens = opening + prompt(1000 + number, 7)
        for turn in range(num_turns):
            tokens += prompt(number * 100 + turn, 6)
            yield tokens
            handle = cold.submit(request(tokens, max_tokens=reply_tokens))
            tokens += tuple(collect(handle)[0][0])
        yield tokens

    cold = engines(cache_blocks=0)
    expected = [list(alone(number)) for number in range(32)]
    engine = engines(num_blocks=60, cache_blocks=24, max_rows=8, max_queued=64, prefill_chunk=64)
    wrong = []

    def converse(number):
        label = f"s{number % 20}" if number % 3 else None  # some share a label, some have none
        for before, after in zip(expected[number], expected[number][1:], strict=False):
            reply, _ = ask(engine, before, max_tokens=reply_tokens, session=label)
            if reply != after[len(before) : len(before) + reply_tokens]:
                wrong.append((number, before, reply))

    threads = [threading.Thread(target=converse, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    stats = engine.stats()
    assert stats.prefix_hits + stats.prefix_misses == 32 * num_turns
    assert stats.prefix_hits > 200  # at least the opening
    assert stats.kv_bytes == stats.prefix_bytes
    assert stats.prefix_entries <= 24


def test_requests_that_arrive_together_compute_their_beginning_once(model, engines):
    gated = GatedModel(model)
    engine = engines(gated, prefill_chunk=64)
    opening = prompt(1, 300)
    asked = [opening + prompt(10 + i, 5) for i in range(6)]
    expected = [reference_greedy(model, ids, 12) for ids in asked]
    gated.gate.clear()
    handles = [engine.submit(request(ids)) for ids in asked]
    gated.gate.set()
    for handle, tokens in zip(handles, expected, strict=True):
        assert collect(handle)[0][0] == tokens
    # Whole blocks of the opening are shared as soon as the first has it; a chunk may have been begun.
    assert engine.stats().prompt_tokens < 305 + 5 * (305 - 288) + 64
    assert engine.stats().prefix_hits == 5


# --- bounds --------------------------------------------------------------------------------------


def test_many_distinct_prompts_leave_no_more_than_the_cap(engines):
    engine = engines(num_blocks=64, cache_blocks=16, max_rows=4)
    chooser = random.Random(3)
    most = 0
    for number in range(150):
        ids = prompt(number, chooser.randrange(1, 120))
        handle = engine.submit(request(ids, max_tokens=3, session=f"s{number}"))
        if number % 7 == 0:
            handle.cancel()
        collect(handle)
        most = max(most, engine.stats().prefix_entries)
    assert most == 16
    stats = engine.stats()
    assert stats.kv_bytes == stats.prefix_bytes == stats.prefix_max_bytes
    assert len(engine._prefixes.sessions) <= 17
    engine.run_exclusive(engine._prefixes.index.clear).result(timeout=10)
    assert engine.stats().kv_bytes == 0


def test_labels_of_entries_that_have_left_cost_no_blocks(engines):
    engine = engines(cache_blocks=4)
    for number in range(30):
        ask(engine, prompt(number, 40), session=f"s{number}", max_tokens=2)
    sessions = engine._prefixes.sessions
    assert sum(len(at) for at in sessions._at.values()) <= len(sessions)
    assert all(node.is_stored for node in sessions._at)


# --- the KV budget -------------------------------------------------------------------------------


def test_rows_wait_until_their_projection_fits_the_budget(model, engines):
    seen = []

    class Watched(GatedModel):
        def forward(self, batch, kv):
            seen.append(engine.stats())
            return super().forward(batch, kv)

    budget = 4 * make_kv(model, 1).bytes_per_block  # 128 tokens
    watched = Watched(model)
    engine = engines(watched, kv_budget_bytes=budget, max_rows=8)
    watched.gate.clear()
    # 40 + 20 tokens are two blocks: two of these at a time.
    handles = [engine.submit(request(prompt(i, 40), max_tokens=20)) for i in range(5)]
    watched.gate.set()
    for handle in handles:
        assert collect(handle)[1][-1] == FinishEvent(0, "length")
    assert max(stats.active_rows for stats in seen) == 2
    assert max(stats.pending_rows for stats in seen) >= 2
    assert max(stats.kv_projected_bytes for stats in seen) == budget
    assert engine.stats().kv_projected_bytes == 0


def test_a_request_over_the_budget_alone_is_refused(model, engines):
    kv = make_kv(model, 1)
    engine = engines(kv_budget_bytes=4 * kv.bytes_per_block)
    with pytest.raises(OverBudget, match=r"140 tokens \(100 of prompt, 40 of reply\).*128 tokens") as refused:
        engine.submit(request(prompt(1, 100), max_tokens=40))
    assert (refused.value.status, refused.value.type) == (400, "memory_admission")
    assert refused.value.code == "kv_over_budget"
    with pytest.raises(OverBudget, match="lower max_tokens"):  # no cap: the context may be filled
        engine.submit(request(prompt(1, 100), max_tokens=None))
    assert len(ask(engine, prompt(1, 100), max_tokens=28)[0]) == 28
    assert engine.stats().submitted_rows == 1


def test_waiting_for_the_budget_counts_as_waiting(model, engines):
    gated = GatedModel(model)
    engine = engines(gated, kv_budget_bytes=2 * make_kv(model, 1).bytes_per_block, max_rows=1, max_queued=1)
    gated.gate.clear()
    handles = [engine.submit(request(prompt(1, 40), max_tokens=20))]
    deadline = time.monotonic() + 20
    while engine.stats().active_rows == 0 and time.monotonic() < deadline:
        time.sleep(0.001)
    handles.append(engine.submit(request(prompt(2, 40), max_tokens=20)))
    with pytest.raises(QueueFull):
        engine.submit(request(prompt(3, 40), max_tokens=20))
    gated.gate.set()
    for handle in handles:
        collect(handle)
