"""Jobs on a lane: order, fairness, failures, cancelling, closing. Passes here only count."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator

import numpy as np
import pytest

from stoker.embed.lane import MAX_JOBS, Job, Lane, OwnThread, Work
from stoker.embed.passes import Pass, Vectors
from stoker.errors import QueueFull, Unavailable


def counting(log: list[str], name: str, value: float, steps: int = 3) -> Generator[None, None, Vectors]:
    for step in range(steps):
        log.append(f"{name}{step}")
        yield
    return np.full((1, 1), value, np.float32)


def job(log: list[str], name: str, num_passes: int = 1) -> Job:
    passes = [Pass((n,), counting(log, f"{name}{n}.", float(n))) for n in range(num_passes)]
    return Job(passes, num_passes, 1)


class Stepped:
    """A host that runs a slice when the test says so."""

    def __init__(self) -> None:
        self.work: Work | None = None

    def __call__(self, work: Work) -> None:
        assert self.work is None, "the host was asked twice"
        self.work = work

    def slice(self, seconds: float = 0.0) -> None:
        assert self.work is not None
        if self.work(seconds):
            self.work = None


@pytest.fixture
def host() -> Stepped:
    return Stepped()


@pytest.fixture
def lane(host: Stepped) -> Iterator[Lane]:
    lane = Lane(host)
    yield lane
    lane.close()


def test_a_slice_without_time_is_one_step(host: Stepped, lane: Lane) -> None:
    log: list[str] = []
    one = job(log, "a")
    lane.submit(one)
    assert log == []
    host.slice()
    assert log == ["a0.0"]
    host.slice()
    assert log == ["a0.0", "a0.1"]
    host.slice(60)
    assert one.future.result(0).tolist() == [[0.0]]
    assert host.work is None  # nothing left: the lane let go of its host


def test_jobs_take_turns(host: Stepped, lane: Lane) -> None:
    log: list[str] = []
    many, one = job(log, "a", 5), job(log, "b")
    lane.submit(many)
    lane.submit(one)
    host.slice(60)
    assert log.index("b0.0") < log.index("a1.0")
    assert many.future.result(0)[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert one.future.result(0).tolist() == [[0]]


def test_a_failure_ends_its_own_job(host: Stepped, lane: Lane) -> None:
    def failing() -> Generator[None, None, Vectors]:
        yield
        raise ValueError("broken")

    log: list[str] = []
    bad = Job([Pass((0,), failing()), Pass((1,), counting(log, "never", 0))], 2, 1)
    good = job(log, "b")
    lane.submit(bad)
    lane.submit(good)
    host.slice(60)
    with pytest.raises(ValueError, match="broken"):
        bad.future.result(0)
    assert good.future.done()
    assert not any(entry.startswith("never") for entry in log)


def test_a_cancelled_job_stops_between_two_steps(host: Stepped, lane: Lane) -> None:
    log: list[str] = []
    one, other = job(log, "a", 3), job(log, "b")
    lane.submit(one)
    host.slice()
    one.cancel()
    lane.submit(other)
    host.slice(60)
    assert log == ["a0.0", "b0.0", "b0.1", "b0.2"]
    assert other.future.done()


def test_the_queue_has_an_end(host: Stepped, lane: Lane) -> None:
    log: list[str] = []
    for _ in range(MAX_JOBS):
        lane.submit(job(log, "a"))
    with pytest.raises(QueueFull):
        lane.submit(job(log, "b"))


def test_closing_fails_what_is_unfinished(host: Stepped) -> None:
    lane = Lane(host)
    log: list[str] = []
    running, waiting = job(log, "a"), job(log, "b")
    lane.submit(running)
    lane.submit(waiting)
    host.slice()
    lane.close()
    for one in (running, waiting):
        with pytest.raises(Unavailable):
            one.future.result(0)
    with pytest.raises(Unavailable):
        lane.submit(job(log, "c"))
    assert host.work is not None
    assert host.work(1.0)  # a host that calls once more learns that there is nothing


def test_passes_run_at_once_on_several_threads(host: Stepped) -> None:
    lane = Lane(host, num_threads=2)
    meeting = threading.Barrier(2, timeout=10)

    def meet(value: float) -> Generator[None, None, Vectors]:
        meeting.wait()  # would time out on one thread
        yield
        return np.full((1, 1), value, np.float32)

    both = Job([Pass((0,), meet(1)), Pass((1,), meet(2))], 2, 1)
    lane.submit(both)
    host.slice(60)
    assert both.future.result(0).tolist() == [[1], [2]]
    lane.close()


def test_progress_counts_items(host: Stepped, lane: Lane) -> None:
    log: list[str] = []
    seen: list[int] = []
    passes = [Pass((n,), counting(log, "a", 0)) for n in range(3)]
    lane.submit(Job(passes, 3, 1, seen.append))
    host.slice(60)
    assert seen == [1, 1, 1]


def test_a_thread_of_its_own() -> None:
    host = OwnThread()
    lanes = [Lane(host.host), Lane(host.host)]
    log: list[str] = []
    jobs = [job(log, "a", 4), job(log, "b", 4)]
    for lane, one in zip(lanes, jobs, strict=True):
        lane.submit(one)
    for one in jobs:
        assert one.future.result(20)[:, 0].tolist() == [0, 1, 2, 3]
    for lane in lanes:
        lane.close()
    host.close()
