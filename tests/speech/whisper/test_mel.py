from __future__ import annotations

import numpy as np
import pytest
import torch

from stoker.speech.whisper.mel import LogMel, mel_filters


def sound(num_samples: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    t = np.arange(num_samples) / 16_000
    return (0.3 * np.sin(2 * np.pi * 440 * t) + 0.05 * rng.standard_normal(num_samples)).astype(np.float32)


def computed(samples: np.ndarray, num_mels: int = 80, block: int | None = None) -> LogMel:
    mel = LogMel(num_mels)
    for first in range(0, len(samples), block or max(1, len(samples))):
        mel.feed(samples[first : first + (block or len(samples))])
    mel.finish()
    return mel


@pytest.mark.parametrize("num_mels", [80, 128])
def test_equals_transformers(num_mels: int) -> None:
    from transformers import WhisperFeatureExtractor

    samples = sound(150_003)
    theirs = WhisperFeatureExtractor(feature_size=num_mels)(
        samples, sampling_rate=16_000, return_tensors="np"
    ).input_features[0]
    ours = computed(samples, num_mels).window(0, 3000)
    assert np.abs(ours.numpy() - theirs).max() < 1e-4


def test_filters_are_triangles_of_area_one_on_slaneys_scale() -> None:
    filters = mel_filters(80).numpy()
    assert filters.shape == (80, 201)
    assert (filters >= 0).all()
    # Linear below 1 kHz: peaks of the first filters lie equally far apart.
    mels_per_hz, top_mel = 3 / 200, 15 + 27 * np.log(8000 / 1000) / np.log(6.4)
    peaks = (np.arange(1, 81) * top_mel / 81) / mels_per_hz
    for index in (5, 15, 24):
        assert abs(filters[index].argmax() * 40 - peaks[index]) <= 20
    # Wide enough for the bins to sum up to the area, about.
    assert abs(filters[60:].sum(axis=1).mean() * 40 - 1) < 0.02


@pytest.mark.parametrize("block", [1, 37, 160, 4000, 100_000])
def test_pieces_equal_the_whole(block: int) -> None:
    samples = sound(3_000 if block == 1 else 40_123)
    whole, pieces = computed(samples), computed(samples, block=block)
    assert whole.num_frames == pieces.num_frames == len(samples) // 160
    assert torch.allclose(whole.window(0, 400), pieces.window(0, 400), atol=1e-6)


def test_frames_are_there_as_soon_as_their_samples_are() -> None:
    samples = sound(16_000)
    mel = LogMel(80)
    mel.feed(samples[:8_000])
    assert mel.num_frames == 49  # frame 49 needs 200 samples after 7840
    early = mel.window(0, 40)
    mel.feed(samples[8_000:])
    assert mel.num_frames == 99
    mel.finish()
    assert mel.num_frames == 100
    # Only the clamp against the loudest value may differ; steady sound has none.
    assert torch.allclose(early, mel.window(0, 40), atol=1e-5)


@pytest.mark.parametrize("num_samples", [0, 1, 159, 200, 201, 400])
def test_short_sounds(num_samples: int) -> None:
    mel = computed(sound(num_samples))
    assert mel.num_frames == num_samples // 160
    assert mel.window(0, 3000).isfinite().all()


def test_released_frames_keep_the_numbers_of_the_others() -> None:
    samples = sound(16_000 * 70)
    mel = computed(samples)
    before = mel.window(6500, 500)
    mel.release(6500)
    assert torch.equal(mel.window(6500, 500), before)
