"""Probabilities against the package's own network, spans against its own rule, both run here."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.speech.sounds import RATE, SPEECH, tone

from stoker.speech.audio import read_audio
from stoker.speech.errors import SpeechUnavailable
from stoker.speech.orders import VadOptions
from stoker.speech.vad import (
    WINDOW,
    SileroVad,
    VadStream,
    find_spans,
    speech_probabilities,
    speech_spans,
    weights_path,
)


@pytest.fixture(scope="module")
def network() -> SileroVad:
    return SileroVad(weights_path())


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    return read_audio(SPEECH)


def test_probabilities_are_the_packages(network: SileroVad, speech: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = torch.jit.load(str(weights_path()))
    padded = np.pad(speech, (0, -len(speech) % WINDOW))
    with torch.no_grad():
        expected = [
            float(reference(torch.from_numpy(padded[at : at + WINDOW]), RATE))
            for at in range(0, len(padded), WINDOW)
        ]
    assert speech_probabilities(network, speech) == pytest.approx(np.array(expected), abs=1e-4)


def test_pieces_make_no_difference(network: SileroVad, speech: np.ndarray) -> None:
    speech = speech[: 3 * RATE]
    whole = speech_probabilities(network, speech)
    stream, found, noise = VadStream(network), [], random.Random(3)
    at = 0
    while at < len(speech):
        size = noise.choice([1, 511, 512, 513, 2000, 8000])
        found.append(stream.feed(speech[at : at + size]))
        at += size
    found.append(stream.finish())
    assert np.concatenate(found) == pytest.approx(whole, abs=1e-5)


def test_speech_is_found(network: SileroVad, speech: np.ndarray) -> None:
    silence = np.zeros(2 * RATE, np.float32)
    spans = speech_spans(np.concatenate((silence, speech, silence)), VadOptions(), network)
    assert 2 * RATE < spans[0][0] < 3 * RATE
    assert 11 * RATE < spans[-1][1] < 13.2 * RATE


@pytest.mark.parametrize("kind", ["zero", "faint noise", "tone", "short", "empty"])
def test_what_is_not_speech(network: SileroVad, kind: str) -> None:
    noise = np.random.default_rng(4).standard_normal(5 * RATE).astype(np.float32)
    sounds = {
        "zero": np.zeros(5 * RATE, np.float32),
        "faint noise": noise * np.float32(1e-3),
        "tone": tone(5.0),
        "short": np.zeros(100, np.float32),
        "empty": np.empty(0, np.float32),
    }
    assert speech_spans(sounds[kind], VadOptions(), network) == []


def reference_spans(
    probabilities: Sequence[float], length: int, options: VadOptions
) -> list[tuple[int, int]]:
    """The contract's rule again, written as slowly as it reads."""
    low = max(options.threshold - 0.15, 0.01)
    quiet_windows = int(np.ceil(options.min_silence_ms * 16 / WINDOW))
    spans, number = [], 0
    while number < len(probabilities):
        if probabilities[number] < options.threshold:
            number += 1
            continue
        start, end, at = number, None, number
        while at < len(probabilities):
            if probabilities[at] < low:
                # Quiet for long enough from here, with no window that reaches the threshold again?
                ahead = at + 1
                passed = None
                while ahead < len(probabilities) and probabilities[ahead] < options.threshold:
                    if ahead - at >= quiet_windows and probabilities[ahead] < low:
                        passed = ahead
                        break
                    ahead += 1
                if passed is not None:
                    end, number = at, passed + 1
                    break
                at = ahead
                continue
            at += 1
        if end is None:
            spans.append((start * WINDOW, length))
            break
        spans.append((start * WINDOW, end * WINDOW))
    spans = [span for span in spans if span[1] - span[0] > options.min_speech_ms * 16]
    pad, result = int(options.pad_ms * 16), [list(span) for span in spans]
    for left, right in itertools.pairwise(result):
        gap = right[0] - left[1]
        share = pad if gap >= 2 * pad else gap // 2
        left[1] += share
        right[0] -= share
    if result:
        result[0][0] = max(0, result[0][0] - pad)
        result[-1][1] = min(length, result[-1][1] + pad)
    return [(start, end) for start, end in result]


@pytest.mark.parametrize("seed", range(40))
def test_spans_follow_the_rule(seed: int) -> None:
    noise = random.Random(seed)
    probabilities, value = [], 0.5
    for _ in range(300):
        if noise.random() < 0.15:
            value = noise.choice([0.02, 0.3, 0.36, 0.45, 0.6, 0.95])
        probabilities.append(min(1.0, max(0.0, value + noise.gauss(0, 0.05))))
    length = 300 * WINDOW - noise.randrange(WINDOW)
    options = VadOptions(
        threshold=noise.choice([0.3, 0.5, 0.8]), min_speech_ms=noise.choice([0, 100, 250, 1000])
    )
    assert find_spans(probabilities, length, options) == reference_spans(probabilities, length, options)


def test_close_spans_share_their_gap() -> None:
    # 32 ms of quiet, and a pause of 32 ms is enough: the gap is shorter than two paddings.
    options = VadOptions(min_silence_ms=0, min_speech_ms=0)
    assert find_spans([0.9] * 10 + [0.0] + [0.9] * 10, 21 * WINDOW, options) == [
        (0, 10 * WINDOW + 256),
        (10 * WINDOW + 256, 21 * WINDOW),
    ]


def test_missing_or_wrong_weights(tmp_path: Path) -> None:
    with pytest.raises(SpeechUnavailable, match="do not exist"):
        weights_path(tmp_path / "none.jit")
    for name in ("text.jit", "text.safetensors"):
        (tmp_path / name).write_text("no weights")
        with pytest.raises(SpeechUnavailable, match="holds no Silero VAD weights"):
            SileroVad(tmp_path / name)
