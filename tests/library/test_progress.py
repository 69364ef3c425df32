from __future__ import annotations

import pytest

from stoker.library.progress import Meter

from .conftest import Recorder


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_counts_rate_and_interval(recorder: Recorder) -> None:
    clock = Clock()
    meter = Meter("org/x", {"a": 1000, "b": 10}, recorder, clock=clock)
    assert (recorder.states[-1].received_bytes, recorder.states[-1].total_bytes) == (0, 1010)
    assert recorder.states[-1].current_file == "a"
    meter.add("a", 100)  # within the interval: counted, not reported
    assert len(recorder.states) == 1
    clock.now += 2.0
    meter.add("a", 300)
    state = recorder.states[-1]
    assert (state.received_bytes, state.bytes_per_sec) == (400, pytest.approx(200.0))  # 400 bytes in 2 s
    clock.now += 4.0
    meter.add("a", 600)
    assert recorder.states[-1].bytes_per_sec == pytest.approx(900 / 4)  # the first sample is older than 5 s
    assert (recorder.states[-1].files_done, recorder.states[-1].current_file) == (1, "b")


def test_resumed_bytes_do_not_count_as_speed(recorder: Recorder) -> None:
    clock = Clock()
    meter = Meter("x", {"a": 1000}, recorder, clock=clock)
    meter.place("a", 900)
    clock.now += 1.0
    meter.add("a", 100)
    state = recorder.states[-1]
    assert (state.received_bytes, state.current_file, state.files_done) == (1000, None, 1)
    assert state.bytes_per_sec <= 100 / 0.1


def test_flush_reports_at_once(recorder: Recorder) -> None:
    meter = Meter("x", {"a": 5}, recorder, clock=Clock())
    meter.add("a", 5)
    meter.flush()
    assert recorder.states[-1].files_done == 1
    meter.note("hello")
    assert recorder.notes == ["hello"]
