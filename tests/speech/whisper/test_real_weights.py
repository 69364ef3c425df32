"""whisper-base itself, on a recording whose words are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.speech_clips import plain, word_errors

from stoker.speech.types import TranscribeOptions
from stoker.speech.whisper import WhisperModel

pytestmark = pytest.mark.real_weights

AUDIO = Path(__file__).parents[1] / "jfk.flac"
SAID = (
    "and so my fellow americans ask not what your country can do for you ask what you can do for your country"
)


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    av = pytest.importorskip("av")
    with av.open(str(AUDIO)) as container:
        resampler = av.AudioResampler(format="flt", layout="mono", rate=16_000)
        frames = [r for f in container.decode(audio=0) for r in resampler.resample(f)]
        frames += resampler.resample(None)
    return np.concatenate([frame.to_ndarray()[0] for frame in frames])


def test_errors_are_counted() -> None:
    assert word_errors(["a", "b", "c"], ["a", "c", "d"]) == 2


@pytest.mark.parametrize("beam_size", [1, 5])
def test_every_word_is_heard(whisper_base: WhisperModel, samples: np.ndarray, beam_size: int) -> None:
    result = whisper_base.transcribe(samples, TranscribeOptions(beam_size=beam_size))
    assert word_errors(plain(SAID), plain(result.text)) == 0
    assert result.language == "en"
    assert (result.language_probability or 0) > 0.8
    assert result.segments[-1].end_s <= 11.0


def test_the_fast_path_says_what_the_reference_says(whisper_base: WhisperModel, samples: np.ndarray) -> None:
    fast, reference = (
        whisper_base.transcribe(
            samples, TranscribeOptions(language="en", word_timestamps=True, faithful=faithful)
        )
        for faithful in (False, True)
    )
    # openai-whisper's tokens for the same weights, greedy.
    assert [token for segment in reference.segments for token in segment.tokens] == [
        50364, 400, 370, 452, 7177, 6280, 1029, 406, 437, 428, 1941, 393, 360, 337, 291, 11, 50744,
        50744, 1029, 437, 291, 393, 360, 337, 428, 1941, 13, 50894,
    ]  # fmt: skip
    assert [s.tokens for s in fast.segments] == [s.tokens for s in reference.segments]
    for segment in fast.segments:
        assert "".join(word.text for word in segment.words) == segment.text
    drift = [abs(a.start_s - b.start_s) for a, b in zip(fast.words, reference.words, strict=True)]
    assert np.median(drift) <= 0.02


def test_silence_is_empty(whisper_base: WhisperModel) -> None:
    result = whisper_base.transcribe(np.zeros(16_000, np.float32), TranscribeOptions(language="en"))
    assert result.text == ""
