"""Residency, order and cancellation of whole takes, on a small fake model."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.speech.fakes import FakeWhisper, LentDevice, make_service
from tests.speech.sounds import RATE, SPEECH, tone

from stoker.errors import GenerationFailed, InvalidRequest, QueueFull, RequestCancelled
from stoker.speech import service as service_module
from stoker.speech.audio import read_audio
from stoker.speech.errors import SpeechUnavailable
from stoker.speech.orders import Order, VadOptions
from stoker.speech.ports import Checkpoint
from stoker.speech.service import SpeechService
from stoker.speech.session import Session
from stoker.speech.types import TranscribeOptions


def until(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.005)


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_weights_are_released_after_each_take() -> None:
    model = FakeWhisper()
    service = make_service(model)
    first = service.transcribe(tone(1.0), Order())
    second = service.transcribe(tone(1.0), Order())
    stats = service.stats()
    assert (stats.residency.loads, stats.residency.unloads, stats.residency.resident) == (2, 2, False)
    assert first.timings.load_ms > 0 < second.timings.load_ms
    assert stats.requests == 2
    assert stats.residency.last_load_ms == second.timings.load_ms


def test_weights_come_and_go_while_the_device_is_with_others(device: LentDevice) -> None:
    model, seen = FakeWhisper(), []

    def load() -> FakeWhisper:
        device.await_idle()
        seen.append("load")
        return model

    begin = model.begin

    def begin_idle(*arguments: Any) -> Any:  # it may have to bring in weights of its own
        device.await_idle()
        seen.append("begin")
        return begin(*arguments)

    model.begin = begin_idle  # type: ignore[method-assign]
    service = SpeechService(lambda: Checkpoint("tiny/whisper", load), device=device)
    service.residency._on_unload = lambda: (device.await_idle(), seen.append("unload"))
    service.transcribe(tone(1.0), Order())
    assert seen == ["load", "begin", "unload"]
    seen.clear()
    session = Session(service, Order())
    session.append(tone(1.0))
    session.finish()
    session.close()
    assert seen == ["load", "begin", "unload"]
    assert device.steps > 2  # the takes themselves did borrow it


def test_resident_weights_stay() -> None:
    service = make_service(FakeWhisper(), idle_unload_s=None)
    assert service.transcribe(tone(1.0), Order()).timings.load_ms > 0
    assert service.transcribe(tone(1.0), Order()).timings.load_ms == 0
    residency = service.stats().residency
    assert (residency.loads, residency.resident, residency.idle_unload_s) == (1, True, None)
    assert service.residency.unload()
    assert not service.residency.unload()
    assert not service.stats().residency.resident


def test_idle_weights_go_after_a_while() -> None:
    service = make_service(FakeWhisper(), idle_unload_s=0.1)
    service.transcribe(tone(1.0), Order())
    assert service.stats().residency.resident
    assert service.transcribe(tone(1.0), Order()).timings.load_ms == 0
    until(lambda: not service.stats().residency.resident)
    assert service.stats().residency.unloads == 1


def test_a_take_at_work_keeps_its_weights() -> None:
    model = FakeWhisper(gate=threading.Event())
    service = make_service(model, idle_unload_s=100)
    thread = in_thread(lambda: service.transcribe(tone(1.0), Order()))
    until(lambda: bool(model.takes))
    assert not service.residency.unload()
    assert model.gate is not None
    model.gate.set()
    thread.join(10)
    assert service.residency.unload()


def test_concurrent_first_takes_share_one_load_and_run_one_by_one() -> None:
    model = FakeWhisper(step_s=0.01)
    service = make_service(model, idle_unload_s=None)
    threads = [in_thread(lambda: service.transcribe(tone(1.0), Order())) for _ in range(6)]
    for thread in threads:
        thread.join(10)
    assert service.stats().residency.loads == 1
    assert model.max_concurrent == 1
    assert len(model.takes) == 6


def test_a_failed_load_leaves_nothing_behind() -> None:
    def load() -> FakeWhisper:
        raise SpeechUnavailable("the file is damaged")

    service = SpeechService(lambda: Checkpoint("m", load))
    with pytest.raises(SpeechUnavailable):
        service.transcribe(tone(1.0), Order())
    assert service.lane.num_waiting == 0
    assert not service.stats().residency.resident


def test_cancelling_takes_one_step() -> None:
    model = FakeWhisper(steps_per_window=1000)
    service = make_service(model)
    with pytest.raises(RequestCancelled):
        service.transcribe(tone(1.0), Order(), should_stop=lambda: model.num_steps >= 3)
    assert model.num_steps == 3
    assert not service.stats().residency.resident
    assert service.transcribe(tone(0.5), Order()).transcript.text == "Hello there."


def test_cancelling_while_waiting() -> None:
    model = FakeWhisper(gate=threading.Event())
    service = make_service(model)
    first = in_thread(lambda: service.transcribe(tone(1.0), Order()))
    until(lambda: bool(model.takes))
    stop, cancelled = threading.Event(), []

    def wait() -> None:
        with pytest.raises(RequestCancelled):
            service.transcribe(tone(1.0), Order(), should_stop=stop.is_set)
        cancelled.append(True)

    second = in_thread(wait)
    until(lambda: service.lane.num_waiting == 2)
    stop.set()
    service.lane.wake()
    second.join(10)
    assert cancelled
    assert model.gate is not None
    model.gate.set()
    first.join(10)
    assert len(model.takes) == 1


def test_a_failure_becomes_one_sentence() -> None:
    service = make_service(FakeWhisper(fail_in_window=0))
    with pytest.raises(GenerationFailed, match="transcription failed: the fake was told to fail"):
        service.transcribe(tone(1.0), Order())


def test_a_language_the_checkpoint_lacks() -> None:
    service = make_service(FakeWhisper())
    with pytest.raises(InvalidRequest, match="yue"):
        service.transcribe(tone(1.0), Order(TranscribeOptions(language="yue")))


def test_too_many_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "MAX_WAITING", 0)
    service = make_service(FakeWhisper())
    service.check_room()
    with service.lane.hold(), pytest.raises(QueueFull):
        service.check_room()


def test_times_end_with_the_clip() -> None:
    """The fake's last segment reaches half a second beyond it."""
    service = make_service(FakeWhisper())
    outcome = service.transcribe(tone(70.0), Order(TranscribeOptions(word_timestamps=True)))
    segments = outcome.transcript.segments
    assert [segment.start_s for segment in segments] == [0.0, 30.0, 60.0]
    assert segments[-1].end_s == 70.0
    assert segments[-1].words[-1].end_s == 70.0


def test_progress_counts_frames() -> None:
    seen: list[tuple[int, int]] = []
    make_service(FakeWhisper()).transcribe(
        tone(70.0), Order(), on_progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(3000, 7000), (6000, 7000), (7000, 7000)]


def test_silence_never_loads_the_model() -> None:
    model = FakeWhisper()
    service = make_service(model)
    outcome = service.transcribe(np.zeros(5 * RATE, np.float32), Order(vad=VadOptions()))
    assert (outcome.transcript.text, outcome.transcript.language) == ("", "en")
    assert outcome.vad is not None
    assert not outcome.vad.speech
    assert outcome.timings.load_ms == outcome.timings.transcribe_ms == 0
    assert outcome.timings.vad_ms is not None
    assert outcome.timings.vad_ms > 0
    assert not model.takes
    assert service.stats().residency.loads == 0
    assert service.stats().requests == 1


def test_trimmed_takes_keep_the_clips_times() -> None:
    model = FakeWhisper()
    speech = read_audio(SPEECH)
    clip = np.concatenate((np.zeros(4 * RATE, np.float32), speech, np.zeros(5 * RATE, np.float32)))
    outcome = make_service(model).transcribe(clip, Order(vad=VadOptions(), trim=True))
    assert outcome.vad is not None
    assert outcome.vad.trimmed is not None
    start, end = outcome.vad.trimmed
    assert start == outcome.vad.spans[0][0] - RATE // 2
    assert end == outcome.vad.spans[-1][1] + RATE // 2
    assert model.takes[0].num_samples == end - start
    assert outcome.transcript.segments[0].start_s == pytest.approx(start / RATE)
    assert outcome.duration_s == pytest.approx(20.0)


def test_without_trimming_the_whole_clip_is_heard() -> None:
    model = FakeWhisper()
    speech = read_audio(SPEECH)
    make_service(model).transcribe(speech, Order(vad=VadOptions()))
    assert model.takes[0].num_samples == len(speech)
