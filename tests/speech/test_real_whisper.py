"""The service with real weights (STOKER_TEST_WHISPER names a checkpoint): whole, streamed, odd files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tests.speech.sounds import RATE, SPEECH, encoded

from stoker.speech.audio import read_audio
from stoker.speech.orders import Order, VadOptions
from stoker.speech.ports import Checkpoint
from stoker.speech.service import SpeechService
from stoker.speech.session import Session
from stoker.speech.types import TranscribeOptions

pytestmark = pytest.mark.real_weights

SENTENCE = (
    "and so my fellow americans ask not what your country can do for you ask what you can do for your country"
)


def plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalpha() or character == " ").strip()


@pytest.fixture(scope="module")
def service() -> SpeechService:
    path = os.environ.get("STOKER_TEST_WHISPER")
    if not path:
        pytest.skip("STOKER_TEST_WHISPER does not name a checkpoint")

    def load():
        from stoker.speech.whisper import load_whisper

        return load_whisper(Path(path))

    return SpeechService(lambda: Checkpoint("whisper", load), idle_unload_s=None)


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    return read_audio(SPEECH)


def test_a_clip(service: SpeechService, speech: np.ndarray) -> None:
    order = Order(TranscribeOptions(word_timestamps=True), VadOptions())
    outcome = service.transcribe(speech, order)
    assert plain(outcome.transcript.text) == SENTENCE
    assert outcome.transcript.language == "en"
    times = [time for word in outcome.transcript.words for time in (word.start_s, word.end_s)]
    assert times == sorted(times)
    assert times[-1] <= outcome.duration_s
    assert len(outcome.transcript.words) == len(SENTENCE.split())


@pytest.mark.parametrize(("container", "codec"), [("webm", "libopus"), ("mp3", "libmp3lame"), ("mp4", "aac")])
def test_other_containers(service: SpeechService, speech: np.ndarray, container: str, codec: str) -> None:
    samples = read_audio(encoded(speech, container, codec))
    outcome = service.transcribe(samples, Order(TranscribeOptions(language="en")))
    assert plain(outcome.transcript.text) == SENTENCE


def test_a_session_says_the_same(service: SpeechService, speech: np.ndarray) -> None:
    """Three repetitions with a pause: 39 s, of which one window is computed on the way."""
    take = np.concatenate([np.concatenate((speech, np.zeros(2 * RATE, np.float32)))] * 3)
    # Repeated text looks like a loop, and a fallback would sample.
    order = Order(TranscribeOptions(language="en", temperatures=(0.0,)))
    whole = service.transcribe(take, order)
    session = Session(service, order)
    for at in range(0, len(take), RATE // 2):
        session.append(take[at : at + RATE // 2])
        session.pump()
    assert session.receipt().segments
    outcome = session.finish()
    session.close()
    assert plain(outcome.transcript.text) == plain(whole.transcript.text)
    assert plain(whole.transcript.text).count("fellow americans") == 3
