"""Work of others between the engine's steps."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from tests.cli.tiny import make_tiny_model

from stoker.core import FinishEvent, GenerationRequest, SamplingParams
from stoker.engine import Engine
from stoker.kv.paged import PagedKV
from stoker.models import load_model
from stoker.models.formats import open_checkpoint


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory):
    folder: Path = make_tiny_model(tmp_path_factory.mktemp("tiny"))
    model = load_model(open_checkpoint(folder), max_context=512)
    engine = Engine(model, PagedKV(model.facts.layers, num_blocks=64))
    engine.start()
    yield engine
    engine.close()


def request(max_tokens: int) -> GenerationRequest:
    return GenerationRequest("r", (1, 2, 3), sampling=SamplingParams(temperature=0), max_tokens=max_tokens)


class Slices:
    """Shared work of `count` slices."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.seconds: list[float] = []
        self.done = threading.Event()

    def __call__(self, seconds: float) -> bool:
        self.seconds.append(seconds)
        self.left -= 1
        if not self.left:
            self.done.set()
        return not self.left


def test_it_runs_on_an_idle_engine_until_it_is_done(engine: Engine) -> None:
    work = Slices(3)
    engine.share(work)
    assert work.done.wait(20)
    time.sleep(0.05)
    assert len(work.seconds) == 3


def test_rows_and_work_go_on_side_by_side(engine: Engine) -> None:
    work = Slices(10**9)
    engine.share(work)
    try:
        handle = engine.submit(request(100))
        before = engine.stats().steps
        events = [event for batch in handle.batches_blocking() for event in batch]
        assert isinstance(events[-1], FinishEvent)
        assert engine.stats().steps - before >= 99
        assert len(work.seconds) >= 90  # about one slice after every step
    finally:
        work.left = 1
    assert work.done.wait(20)


def test_two_works_take_turns(engine: Engine) -> None:
    order: list[str] = []

    def named(name: str, count: int):
        slices = Slices(count)

        def work(seconds: float) -> bool:
            order.append(name)
            return slices(seconds)

        return work, slices.done

    gate = threading.Event()
    blocked = engine.run_exclusive(lambda: gate.wait(20))
    (first, first_done), (second, second_done) = named("a", 3), named("b", 3)
    engine.share(first)
    engine.share(second)
    gate.set()
    blocked.result(20)
    assert first_done.wait(20)
    assert second_done.wait(20)
    assert order == ["a", "b"] * 3


def test_failing_work_is_dropped_and_the_rows_go_on(engine: Engine) -> None:
    failed = threading.Event()

    def broken(seconds: float) -> bool:
        failed.set()
        raise RuntimeError("broken")

    handle = engine.submit(request(100))
    engine.share(broken)
    events = [event for batch in handle.batches_blocking() for event in batch]
    assert isinstance(events[-1], FinishEvent)
    assert failed.wait(20)
