"""Takes that arrive in pieces: windows as they fill, the gate, limits, expiry."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.speech.fakes import FakeWhisper, make_service
from tests.speech.sounds import RATE, SPEECH, tone
from tests.speech.test_service import in_thread, until

from stoker.errors import GenerationFailed, NotFound, QueueFull, RequestCancelled
from stoker.speech.audio import read_audio
from stoker.speech.errors import AudioError
from stoker.speech.orders import Order, VadOptions
from stoker.speech.session import Session
from stoker.speech.sessions import IDLE_S, MAX_OPEN, SessionClosed, Sessions


def feed(session: Session, samples: np.ndarray, chunk_s: float = 0.5) -> None:
    size = int(chunk_s * RATE)
    for at in range(0, len(samples), size):
        session.append(samples[at : at + size])
        session.pump()


def test_windows_run_as_they_fill() -> None:
    model = FakeWhisper()
    session = Session(make_service(model), Order())
    feed(session, tone(29.5))
    assert model.num_steps == 0
    feed(session, tone(0.5))
    assert model.num_steps == 4
    assert len(session.receipt().segments) == 1
    feed(session, tone(32.0))
    receipt = session.receipt()
    assert receipt.num_samples == 62 * RATE
    assert [segment.start_s for segment in receipt.segments] == [0.0, 30.0]
    outcome = session.finish()
    session.close()
    assert model.num_steps == 12  # the two windows are not decoded again
    assert outcome.duration_s == 62.0
    assert outcome.transcript.segments[-1].end_s == 62.0


def test_what_arrives_is_what_is_heard() -> None:
    model = FakeWhisper()
    session = Session(make_service(model), Order())
    sound = np.random.default_rng(1).standard_normal(100_000).astype(np.float32)
    feed(session, sound, 0.0371)
    session.finish()
    assert np.array_equal(np.concatenate(model.takes[0].fed), sound)


def test_an_open_session_keeps_the_weights() -> None:
    service = make_service(FakeWhisper())
    session = Session(service, Order())
    service.transcribe(tone(1.0), Order())
    assert service.stats().residency.resident
    assert not service.residency.unload()
    feed(session, tone(1.0))
    assert session.finish().timings.load_ms > 0  # of its creation
    session.close()
    session.close()
    assert not service.stats().residency.resident
    assert service.stats().residency.loads == 1
    assert service.stats().requests == 2


def test_no_audio_at_all() -> None:
    model = FakeWhisper()
    for vad in (None, VadOptions()):
        session = Session(make_service(model), Order(vad=vad))
        session.append(tone(0.05))
        outcome = session.finish()
        assert outcome.transcript.text == ""
        assert outcome.transcript.segments == ()
    assert model.num_steps == 0


def test_the_gate_keeps_audio_until_somebody_speaks() -> None:
    model = FakeWhisper()
    session = Session(make_service(model), Order(vad=VadOptions()))
    silence, speech = np.zeros(35 * RATE, np.float32), read_audio(SPEECH)
    feed(session, silence)
    assert not session.receipt().speech
    assert not model.takes[0].fed
    feed(session, speech)
    assert session.receipt().speech
    assert model.num_steps > 0
    outcome = session.finish()
    assert model.takes[0].num_samples == len(silence) + len(speech)  # nothing was lost
    assert outcome.vad is not None
    assert outcome.vad.speech
    assert outcome.timings.vad_ms is not None


def test_a_take_without_speech_is_empty() -> None:
    model = FakeWhisper()
    session = Session(make_service(model), Order(vad=VadOptions()))
    feed(session, np.zeros(40 * RATE, np.float32))
    outcome = session.finish()
    assert outcome.transcript.text == ""
    assert outcome.vad is not None
    assert not outcome.vad.speech
    assert model.num_steps == 0


def test_a_click_opens_the_gate_but_is_no_speech() -> None:
    """The verdict is over the whole take, with the least length of a span."""
    model = FakeWhisper()
    session = Session(make_service(model), Order(vad=VadOptions(min_speech_ms=60_000)))
    feed(session, read_audio(SPEECH))
    assert session.receipt().speech
    assert session.finish().transcript.text == ""


def test_a_failed_window_is_told_at_the_end() -> None:
    session = Session(make_service(FakeWhisper(fail_in_window=1)), Order())
    feed(session, tone(65.0))
    assert len(session.receipt().segments) == 1
    with pytest.raises(GenerationFailed, match="told to fail"):
        session.finish()


def test_finish_can_be_cancelled() -> None:
    model = FakeWhisper(steps_per_window=1000)
    session = Session(make_service(model), Order())
    feed(session, tone(5.0))
    with pytest.raises(RequestCancelled):
        session.finish(lambda: model.num_steps >= 2)
    assert model.num_steps == 2


def test_closing_stops_a_window() -> None:
    model = FakeWhisper(steps_per_window=100_000, step_s=0.001)
    service = make_service(model)
    session = Session(service, Order())
    session.append(tone(31.0))
    pump = in_thread(session.pump)
    until(lambda: model.num_steps > 2)
    session.close()
    pump.join(10)
    assert not service.stats().residency.resident
    assert service.lane.num_waiting == 0


def test_one_pump_is_enough() -> None:
    session = Session(make_service(FakeWhisper()), Order())
    assert session.append(tone(0.5))
    assert not session.append(tone(0.5))
    session.pump()
    assert session.append(tone(0.5))


def test_too_long_a_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.speech.session.MAX_DURATION_S", 1)
    session = Session(make_service(FakeWhisper()), Order())
    session.append(tone(0.9))
    with pytest.raises(AudioError, match="longer than"):
        session.append(tone(0.2))
    assert session.receipt().num_samples == int(0.9 * RATE)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_ids() -> None:
    sessions = Sessions(make_service(FakeWhisper()))
    id, session = sessions.open(Order())
    assert sessions.find(id) is session
    assert len(sessions) == 1
    with pytest.raises(NotFound, match="unknown transcription session"):
        sessions.find("nobody")
    assert sessions.take_out(id) is session
    for look in (sessions.find, sessions.take_out):
        with pytest.raises(SessionClosed, match="session is closed") as closed:
            look(id)
        assert closed.value.status == 409
    session.close()


def test_no_more_than_64() -> None:
    service = make_service(FakeWhisper())
    sessions = Sessions(service)
    ids = [sessions.open(Order())[0] for _ in range(MAX_OPEN)]
    assert MAX_OPEN == 64
    with pytest.raises(QueueFull, match="too many open transcription sessions"):
        sessions.open(Order())
    sessions.take_out(ids[0]).close()
    sessions.open(Order())
    sessions.close()
    assert len(sessions) == 0
    assert not service.stats().residency.resident


def test_the_limit_holds_for_those_that_open_at_once() -> None:
    model = FakeWhisper()
    service = make_service(model)
    sessions = Sessions(service)
    refused: list[bool] = []

    def open_one() -> None:
        try:
            sessions.open(Order())
        except QueueFull:
            refused.append(True)

    threads = [threading.Thread(target=open_one) for _ in range(80)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(sessions) == 64
    assert len(refused) == 16
    sessions.close()


def test_forgotten_sessions_end() -> None:
    clock = Clock()
    service = make_service(FakeWhisper())
    sessions = Sessions(service, clock=clock)
    kept, _ = sessions.open(Order())
    forgotten, _ = sessions.open(Order())
    clock.now = IDLE_S - 1
    sessions.find(kept)
    sessions.sweep()
    assert len(sessions) == 2
    clock.now = IDLE_S
    sessions.sweep()
    sessions.find(kept)
    with pytest.raises(SessionClosed):
        sessions.find(forgotten)
    sessions.close()
    assert not service.stats().residency.resident
