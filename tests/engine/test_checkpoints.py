"""Generations that were interrupted and asked for again, against ones that were not."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.engine.test_disk import LONG, ask, engines, eventually, model
from tests.engine.test_engine import collect, prompt, reference_greedy, request

from stoker.cache.disk.checkpoint import Checkpoint, decode, encode, identity_of
from stoker.cache.disk.segment import BadSegment
from stoker.core import SamplingParams, TokenEvent
from stoker.engine.checkpoints import can_resume, request_identity

__all__ = ["engines", "model"]

SEEDED = SamplingParams(temperature=1.0, seed=11, repetition_penalty=1.2, repetition_context_size=64)


def checkpoints(tmp_path):
    return list((tmp_path / "cache").glob("*/*.checkpoint"))


def interrupt(engine, asked, after):
    """Reads `after` tokens and goes away, long before the last one."""
    run = engine._executor.run

    def slowly(*arguments):
        time.sleep(0.005)  # the tiny model could finish before the reader has said that it goes
        return run(*arguments)

    engine._executor.run = slowly
    handle = engine.submit(asked)
    seen = []
    for batch in handle.batches_blocking():
        seen += [event.token_id for event in batch if isinstance(event, TokenEvent)]
        if len(seen) >= after:
            handle.cancel()
    engine._executor.run = run
    return seen


@pytest.mark.parametrize("sampling", [SamplingParams(temperature=0), SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("restart", [True, False])
def test_the_same_request_goes_on_where_it_was_cut_off(engines, tmp_path, sampling, restart):
    asked = request(LONG, max_tokens=60, sampling=sampling)
    plain = engines(cache_bytes=0)
    expected = collect(plain.submit(asked))[0][0]
    engine = engines(checkpoint_tokens=5)
    said = interrupt(engine, asked, 23)
    assert expected[: len(said)] == said
    engine.flush_cache(30)
    assert len(checkpoints(tmp_path)) == 1
    if restart:
        engine.close(flush_timeout_s=30)
        engine = engines(checkpoint_tokens=5)
    generated = engine.stats().generated_tokens
    tokens, events = collect(engine.submit(asked))
    assert tokens[0] == expected
    assert engine.stats().generated_tokens - generated <= 60 - 20  # the rest was told again
    assert events[0].cached_tokens == len(LONG)
    assert events[0].prompt_tokens == len(LONG)
    eventually(lambda: not checkpoints(tmp_path))  # it has served its purpose


def test_an_unseeded_request_goes_on_with_its_own_random_numbers(engines):
    asked = request(LONG, max_tokens=60, sampling=SamplingParams(temperature=1.0))
    engine = engines(checkpoint_tokens=4)
    said = interrupt(engine, asked, 20)
    engine.flush_cache(30)
    tokens = collect(engine.submit(asked))[0][0]
    assert tokens[:16] == said[:16]
    assert len(tokens) == 60


@pytest.mark.parametrize(
    "change",
    [
        {"prompt_ids": (*LONG[:-1], 5)},
        {"max_tokens": 61},
        {"sampling": replace(SEEDED, seed=12)},
        {"sampling": replace(SEEDED, top_k=3)},
        {"sampling": replace(SEEDED, logit_bias={3: 1.0})},
        {"eos_ids": frozenset({77})},
    ],
)
def test_any_change_starts_afresh(change):
    asked = request(LONG, max_tokens=60, sampling=SEEDED)
    other = replace(asked, **change)
    assert request_identity(asked, asked.max_tokens) != request_identity(other, other.max_tokens)
    assert request_identity(replace(asked, id="x", session="s"), 60) == request_identity(asked, 60)


def test_log_probabilities_and_several_choices_leave_none(engines, tmp_path):
    engine = engines(checkpoint_tokens=2)
    interrupt(engine, request(LONG, max_tokens=40, sampling=SamplingParams(temperature=0, logprobs=1)), 10)
    interrupt(engine, request(LONG, max_tokens=40, n=2), 10)
    engine.flush_cache(30)
    assert checkpoints(tmp_path) == []


@pytest.mark.parametrize("fact", [{"namespace": "adapter"}, {"constraint": object()}])
def test_states_that_are_not_saved_rule_it_out(fact):
    plain = {"n": 1, "sampling": SEEDED}
    assert can_resume(SimpleNamespace(**plain))
    assert not can_resume(SimpleNamespace(**plain, **fact))


def test_success_leaves_none(model, engines, tmp_path):
    engine = engines(checkpoint_tokens=3)
    assert ask(engine, LONG)[0] == reference_greedy(model, LONG, 12)
    handle = engine.submit(request(LONG, max_tokens=40))
    for batch in handle.batches_blocking():
        if sum(isinstance(event, TokenEvent) for event in batch):
            handle.stop(0)  # a stop string, say
    engine.flush_cache(30)
    eventually(lambda: not checkpoints(tmp_path))


def test_a_damaged_checkpoint_is_not_used(model, engines, tmp_path, caplog):
    asked = request(LONG, max_tokens=40)
    engine = engines(checkpoint_tokens=5)
    interrupt(engine, asked, 20)
    engine.close(flush_timeout_s=30)
    (path,) = checkpoints(tmp_path)
    path.write_bytes(path.read_bytes().replace(b'"generated":[', b'"generated":[1,'))
    engine = engines(checkpoint_tokens=5)
    assert collect(engine.submit(asked))[0][0] == reference_greedy(model, LONG, 40)
    assert "is not used" in caplog.text


def test_checkpoints_alone_without_their_keys_and_values(model, engines, tmp_path):
    """The cap took the history: it is computed again, and the answer goes on."""
    asked = request(LONG, max_tokens=40)
    engine = engines(checkpoint_tokens=5)
    interrupt(engine, asked, 20)
    engine.close(flush_timeout_s=30)
    for path in (tmp_path / "cache").glob("*/*.safetensors"):
        path.unlink()
    engine = engines(checkpoint_tokens=5)
    tokens, events = collect(engine.submit(asked))
    assert tokens[0] == reference_greedy(model, LONG, 40)
    assert events[0].cached_tokens == 0


def test_the_queue_keeps_the_newest(engines, monkeypatch):
    engine = engines(checkpoint_tokens=1, max_queued_bytes=0)
    handles = [engine.submit(request(prompt(seed, 20), max_tokens=30)) for seed in range(4)]
    for handle in handles:
        assert len(collect(handle)[0][0]) == 30
    engine.flush_cache(30)
    eventually(lambda: engine.disk_stats().pending_spills == 0)
    eventually(lambda: engine.stats().kv_bytes == engine.stats().prefix_bytes)
    assert engine.disk_stats().dropped_spills > 0


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b"nonsense", b'{"hash": "x"}'])
def test_nonsense_is_refused(data):
    with pytest.raises(BadSegment):
        decode(data, "a" * 64)


def test_a_checkpoint_comes_back_as_it_went():
    checkpoint = Checkpoint(identity_of([1, 2], {"a": 1}), (4, 5, 6), "ab" * 32)
    assert decode(encode(checkpoint), checkpoint.identity) == checkpoint
    with pytest.raises(BadSegment):
        decode(encode(checkpoint), "b" * 64)
