"""Work between steps: rows stay, go on after it, and produce the same tokens."""

from __future__ import annotations

import threading

import pytest
from tests.cli.tiny import make_tiny_model

from stoker.core import GenerationRequest, SamplingParams, TokenEvent
from stoker.engine import Engine, EngineConfig
from stoker.errors import Unavailable
from stoker.kv.paged import PagedKV
from stoker.models import load_model
from stoker.models.formats import open_checkpoint


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return load_model(open_checkpoint(make_tiny_model(tmp_path_factory.mktemp("tiny"))), max_context=256)


@pytest.fixture
def engine(model):
    engine = Engine(model, PagedKV(model.facts.layers, num_blocks=64), EngineConfig())
    engine.start()
    yield engine
    engine.close()


def generate(engine, num_tokens, on_token=lambda: None):
    sampling = SamplingParams(temperature=0)
    request = GenerationRequest(id="r", prompt_ids=(5, 6, 7), sampling=sampling, max_tokens=num_tokens)
    tokens = []
    for batch in engine.submit(request).batches_blocking():
        for event in batch:
            if isinstance(event, TokenEvent):
                tokens.append(event.token_id)
                on_token()
    return tokens


def test_an_idle_engine_runs_it_at_once(engine):
    assert engine.run_between(lambda: 42).result(10) == 42
    with pytest.raises(ValueError, match="boom"):
        engine.run_between(lambda: int("boom")).result(10)


def test_rows_stay_and_go_on(engine):
    undisturbed = generate(engine, 40)
    rows, done = [], []

    def work():
        rows.append(engine.stats().active_rows)

    def on_token():
        if len(done) < 20:
            done.append(engine.run_between(work))

    assert generate(engine, 40, on_token) == undisturbed
    for future in done:
        future.result(10)
    assert 1 in rows  # it ran while the row was active, which exclusive work never does


def test_one_piece_before_each_step(engine):
    """Pieces that are posted at the same time do not run in a row while somebody waits for tokens."""
    steps = []
    first = threading.Event()

    def piece():
        first.wait(10)
        steps.append(engine.stats().steps)

    def on_token():
        if not futures:
            futures.extend(engine.run_between(piece) for _ in range(5))
            first.set()

    futures = []
    generate(engine, 40, on_token)
    for future in futures:
        future.result(10)
    assert len(set(steps)) == 5


def test_one_taken_back_never_runs(engine):
    blocked, ran = threading.Event(), []
    engine.run_between(lambda: blocked.wait(10))
    taken_back = engine.run_between(lambda: ran.append(1))
    assert taken_back.cancel()
    blocked.set()
    engine.run_between(lambda: None).result(10)
    assert not ran


def test_a_closing_engine_refuses_it(model):
    engine = Engine(model, PagedKV(model.facts.layers, num_blocks=64), EngineConfig())
    engine.start()
    engine.close()
    with pytest.raises(Unavailable):
        engine.run_between(lambda: None)
