"""The loop over windows, on a tiny random model: what it says makes no sense, how it goes on does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from stoker.errors import InvalidRequest
from stoker.speech.types import Cancelled, Segment, TranscribeOptions
from stoker.speech.whisper import WhisperModel
from stoker.speech.whisper import take as take_module
from stoker.speech.whisper.encoder import Encoder

from . import tiny

# A random model is never sure of itself: without thresholds there is one decoding per window.
PLAIN = TranscribeOptions(
    language="en", temperatures=(0.0,), no_speech_threshold=None, logprob_threshold=None,
    compression_ratio_threshold=None,
)  # fmt: skip
WINDOW_S = 2 * tiny.AUDIO_CTX / 100


def sound(seconds: float) -> np.ndarray:
    rng = np.random.default_rng(5)
    return (0.1 * rng.standard_normal(int(16_000 * seconds))).astype(np.float32)


def stepped(
    model: WhisperModel, options: TranscribeOptions, pieces: list[np.ndarray]
) -> tuple[Any, list[int]]:
    """Fed piece by piece, windows run as they fill; also the seek after each piece."""
    seeks = []
    with torch.inference_mode():
        take = model.begin(options)
        for piece in pieces:
            take.feed(piece)
            for _ in take.run():
                pass
            seeks.append(take.seek)
        for _ in take.finish():
            pass
        return take.transcript(), seeks


def test_segments_are_in_order_and_inside_the_recording(tiny_model: WhisperModel) -> None:
    heard: list[Segment] = []
    progress: list[tuple[int, int]] = []
    samples = sound(7.25)
    result = tiny_model.transcribe(
        samples, PLAIN, on_segment=heard.append, on_progress=lambda done, of: progress.append((done, of))
    )
    assert list(result.segments) == heard
    assert [s.id for s in heard] == list(range(len(heard)))
    assert result.duration_s == 7.25
    assert result.language == "en"
    assert result.language_probability is None
    for segment in heard:
        assert 0 <= segment.start_s <= segment.end_s <= 7.25
        assert segment.seek / 100 <= segment.start_s
    assert all(a.seek <= b.seek for a, b in pairwise(heard))
    assert progress[-1] == (725, 725)
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)


def test_windows_run_as_they_fill_and_say_the_same(tiny_model: WhisperModel) -> None:
    # The loudest sound comes first, so that early windows are normalized like late ones.
    samples = sound(9)
    samples[:800] *= 5
    whole = tiny_model.transcribe(samples, PLAIN)
    pieces, seeks = stepped(tiny_model, PLAIN, np.split(samples, 18))
    assert pieces.text == whole.text
    assert [s.tokens for s in pieces.segments] == [s.tokens for s in whole.segments]
    assert seeks[0] == 0
    assert seeks[-1] > 0
    assert 900 - seeks[-1] < 200 + 3  # at most one window waits, and the frames the next samples complete


def test_blocks_and_one_array_are_the_same(tiny_model: WhisperModel) -> None:
    samples = sound(3)
    assert tiny_model.transcribe(iter(np.split(samples, 5)), PLAIN) == tiny_model.transcribe(samples, PLAIN)


@pytest.mark.parametrize("seconds", [0, 0.005, 0.02])
def test_next_to_nothing(tiny_model: WhisperModel, seconds: float) -> None:
    result = tiny_model.transcribe(sound(seconds), replace(PLAIN, word_timestamps=True))
    assert result.duration_s == pytest.approx(seconds)


def test_cancelled_within_a_step(tiny_model: WhisperModel) -> None:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked == 4

    with pytest.raises(Cancelled):
        tiny_model.transcribe(sound(5), PLAIN, should_stop=stop)
    assert asked == 4


def test_silence_says_nothing(tiny_model: WhisperModel) -> None:
    # Everything counts as silence below a threshold of -1.
    options = replace(PLAIN, no_speech_threshold=-1.0, logprob_threshold=None)
    result = tiny_model.transcribe(sound(5), options)
    assert (result.text, result.segments) == ("", ())


def test_the_ladder_is_climbed_while_the_result_looks_wrong(tiny_model: WhisperModel) -> None:
    wrong = replace(PLAIN, temperatures=(0.0, 0.4, 0.8), logprob_threshold=0.0, seed=1, language=None)
    result = tiny_model.transcribe(sound(2), wrong)
    assert {s.temperature for s in result.segments} <= {0.8}
    assert result == tiny_model.transcribe(sound(2), wrong)
    right = replace(wrong, logprob_threshold=-100.0)
    assert {s.temperature for s in tiny_model.transcribe(sound(2), right).segments} <= {0.0}
    # Low probability in what is probably silence is no reason to try again.
    silent = replace(wrong, no_speech_threshold=-1.0)
    assert tiny_model.transcribe(sound(2), silent).segments == ()


def test_detection_knows_only_this_checkpoints_languages(tiny_model: WhisperModel) -> None:
    result = tiny_model.transcribe(sound(2), replace(PLAIN, language=None))
    assert result.language in ("en", "de", "ja")
    assert result.language_probability is not None
    assert 1 / 3 <= result.language_probability <= 1
    with pytest.raises(InvalidRequest, match="unsupported language"):
        tiny_model.transcribe(sound(2), replace(PLAIN, language="fr"))


def test_words_lie_in_their_segments_in_order(tiny_model: WhisperModel) -> None:
    result = tiny_model.transcribe(sound(6), replace(PLAIN, word_timestamps=True))
    times = [t for word in result.words for t in (word.start_s, word.end_s)]
    assert times == sorted(times)
    assert all(0 <= t <= 6 for t in times)
    for segment in result.segments:
        assert all(0 <= word.probability <= 1 for word in segment.words)


@pytest.mark.parametrize(
    "options",
    [
        replace(PLAIN, beam_size=5),
        replace(PLAIN, without_timestamps=True),
        replace(PLAIN, audio_ctx=64),
        replace(PLAIN, task="translate", condition_on_previous_text=False),
        replace(PLAIN, temperatures=(0.7,), best_of=3, seed=2),
        replace(PLAIN, initial_prompt="x" * 200, vocabulary=("Ann", "Bo")),
        replace(PLAIN, faithful=True, beam_size=2, patience=2.0),
    ],
    ids=["beam", "no timestamps", "audio_ctx", "translate", "best of", "prompt", "faithful"],
)
def test_options_reach_the_end(tiny_model: WhisperModel, options: TranscribeOptions) -> None:
    result = tiny_model.transcribe(sound(4.3), options)
    assert result.duration_s == pytest.approx(4.3)
    if options.vocabulary:
        assert result.vocabulary is not None
        assert result.vocabulary.token_count <= tiny.TEXT_CTX // 2 - 1
    if options.without_timestamps:
        assert all(t < tiny.TIMESTAMP_BEGIN for s in result.segments for t in s.tokens)


@pytest.mark.parametrize("faithful", [False, True])
def test_no_piece_of_work_is_longer_than_one_layer_of_the_encoder(
    tiny_model: WhisperModel, monkeypatch: pytest.MonkeyPatch, faithful: bool
) -> None:
    """Others compute between two of a take's steps, which hold a layer or the words, never two of them."""
    done: list[str] = []

    def noted(kind: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            done.append(kind)
            return work(*arguments, **options)

        return run

    monkeypatch.setattr(Encoder, "_attend", noted("layer", Encoder._attend))
    monkeypatch.setattr(take_module, "align_words", noted("words", take_module.align_words))
    options = replace(PLAIN, language=None, word_timestamps=True, faithful=faithful)
    with torch.inference_mode():
        running = tiny_model.begin(options)
        running.feed(sound(2.5 * WINDOW_S))
        pieces = []
        for _ in running.finish():
            pieces.append(list(done))
            done.clear()
    assert not done
    assert max(map(len, pieces)) == 1
    assert pieces.count(["layer"]) >= 3 * tiny.LAYERS
    assert ["words"] in pieces
