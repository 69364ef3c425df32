"""The service with real weights (STOKER_TEST_WHISPER names a checkpoint): whole, streamed, odd files."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from tests.speech.sounds import RATE, SPEECH, encoded

from benchmarks import speech_clips
from stoker.speech.audio import read_audio
from stoker.speech.orders import Order, VadOptions
from stoker.speech.ports import Checkpoint
from stoker.speech.service import SpeechService
from stoker.speech.session import Session
from stoker.speech.types import TranscribeOptions
from stoker.speech.whisper import WhisperModel
from stoker.speech.whisper.encoder import Encoder

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


class CountedEncoder:
    """Passes on to the model's encoder."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.is_native = encoder.is_native
        self.num_windows = 0

    def steps(self, mel: torch.Tensor) -> Generator[None, None, torch.Tensor]:
        self.num_windows += 1
        return self._encoder.steps(mel)


def spoken(seconds: float) -> np.ndarray:
    """Sentences that do not repeat."""
    if not speech_clips.can_speak():
        pytest.skip("espeak-ng is not installed")
    texts = (speech_clips.MEETING, speech_clips.TRAIN, speech_clips.GARDEN, speech_clips.RIVER)
    said = speech_clips.speak(" ".join((*texts, *texts)), "en-us", 140)
    assert len(said) > seconds * RATE
    return said[: int(seconds * RATE)]


@pytest.mark.parametrize("kind", ["a person, with pauses", "espeak-ng"])
def test_a_session_says_the_same_and_has_one_window_left(
    service: SpeechService, speech: np.ndarray, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """62 s in chunks of half a second: what is computed after the last of them is one window."""
    if kind == "espeak-ng":
        take = spoken(62)
    else:
        take = np.tile(np.concatenate((speech, np.zeros(2 * RATE, np.float32))), 5)[: 62 * RATE]
    # Repeated text looks like a loop, and a fallback would sample.
    order = Order(TranscribeOptions(language="en", temperatures=(0.0,)))
    with service.residency.use() as lease:
        model = cast(WhisperModel, lease.model)
        fast = model.networks(faithful=False)
        counted = CountedEncoder(fast.encoder)
        monkeypatch.setattr(
            model, "networks", lambda *, faithful: fast._replace(encoder=cast(Encoder, counted))
        )
        whole = service.transcribe(take, order)
        num_whole = counted.num_windows
        session = Session(service, order)
        for at in range(0, len(take), RATE // 2):
            session.append(take[at : at + RATE // 2])
            session.pump()
        assert session.receipt().segments
        before = counted.num_windows
        outcome = session.finish()
        session.close()
    assert counted.num_windows - before == 1
    assert counted.num_windows == 2 * num_whole  # none was computed in vain
    assert plain(outcome.transcript.text) == plain(whole.transcript.text)
    assert len(plain(whole.transcript.text).split()) > 90
