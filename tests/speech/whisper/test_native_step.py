"""One native call gives what the decoder's torch form gives, and so do its ways to choose and to store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from stoker.kernels import native
from stoker.speech.whisper import load_whisper
from stoker.speech.whisper.decoder import CrossCache, Decoder, Window
from stoker.speech.whisper.search import Beam, likeliest

from . import tiny

pytestmark = pytest.mark.skipif(native.library() is None, reason="no native kernels were built")

TOKENS = [257, 258, 262, tiny.TIMESTAMP_BEGIN, 40, 41, 42, 200, 17, 5, 6]
INFINITY = float("inf")


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = native._num_threads
    native.set_num_threads(request.param)
    yield request.param
    native.set_num_threads(before)


def in_torch(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "native", None)


def say(decoder: Decoder, audio: torch.Tensor) -> list[torch.Tensor]:
    """A prompt, then rows that fork and part."""
    window = Window(decoder, decoder.cross(audio), 3)
    out = [window.begin(TOKENS)]
    window.select([0, 0, 0])
    out.append(window.step([1, 2, 3]))
    window.select([2, 0, 2])
    out.append(window.step([7, 8, 9]))
    window.select([1])
    out.append(window.step([11]))
    return out


@pytest.mark.parametrize("write", [tiny.write_hf, lambda m, p: tiny.write_mlx(m, p, "npz", 8)])
def test_equals_the_torch_form(
    write: Any, threads: int, reference: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = load_whisper(write(reference, tmp_path / "checkpoint")).networks(faithful=False).decoder
    assert decoder.native is not None
    audio = torch.randn(tiny.AUDIO_CTX, tiny.WIDTH, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        ours = say(decoder, audio)
        in_torch(decoder, monkeypatch)
        for mine, wanted in zip(ours, say(decoder, audio), strict=True):
            # Norms and GELU round differently, and now and then an activation's code with them.
            torch.testing.assert_close(mine, wanted, rtol=2e-3, atol=2e-3)


def test_a_prompt_longer_than_its_parts(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cross-attention takes 64 tokens together."""
    monkeypatch.setattr(tiny, "TEXT_CTX", 200)
    model = load_whisper(tiny.write_hf(tiny.tiny_reference(), tmp_path / "checkpoint"))
    decoder = model.networks(faithful=False).decoder
    audio = torch.randn(tiny.AUDIO_CTX, tiny.WIDTH, generator=torch.Generator().manual_seed(2))
    ids = [token % 256 for token in range(150)]
    with torch.inference_mode():
        cross = decoder.cross(audio)
        ours = Window(decoder, cross, 1).begin(ids)
        in_torch(decoder, monkeypatch)
        wanted = Window(decoder, cross, 1).begin(ids)
    torch.testing.assert_close(ours, wanted, rtol=5e-3, atol=5e-3)


def test_faithful_keeps_to_torch(tiny_model: Any) -> None:
    assert tiny_model.networks(faithful=True).decoder.native is None


@pytest.mark.parametrize("num_positions", [1, 32, 75])
def test_keys_and_values_are_stored_alike(
    num_positions: int, threads: int, tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = tiny_model.networks(faithful=False).decoder
    kv = torch.randn(num_positions, 2 * tiny.WIDTH)
    with torch.inference_mode():
        ours, theirs = CrossCache(decoder, num_positions), CrossCache(decoder, num_positions)
        theirs.caches = None
        ours.store(1, kv)
        theirs.store(1, kv)
    rest = num_positions % 32 or 32
    for mine, wanted in ((ours._kv.keys[1], theirs._kv.keys[1]), (ours._kv.values[1], theirs._kv.values[1])):
        assert torch.equal(mine[:-1], wanted[:-1])
    assert torch.equal(ours._kv.keys[1][-1, :, :, :rest], theirs._kv.keys[1][-1, :, :, :rest])
    assert torch.equal(ours._kv.values[1][-1, :, :rest], theirs._kv.values[1][-1, :, :rest])


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (5, 6), (2, 64), (1, 100)])
def test_the_likeliest(rows: int, count: int, threads: int, tiny_model: Any) -> None:
    choose = tiny_model.networks(faithful=False).decoder.native.likeliest
    logits = 5 * torch.randn(rows, 1771, generator=torch.Generator().manual_seed(count))
    logits[:, 100:900] = -INFINITY
    gains, tokens = choose(logits, count)
    wanted_gains, wanted_tokens = likeliest(logits, count)
    assert torch.equal(tokens, wanted_tokens)
    torch.testing.assert_close(gains, wanted_gains, rtol=1e-5, atol=1e-5)


def test_the_first_of_equals_wins(threads: int, tiny_model: Any) -> None:
    choose = tiny_model.networks(faithful=False).decoder.native.likeliest
    logits = torch.zeros(1, 50)
    logits[0, [7, 31, 48]] = 2.0
    assert choose(logits, 3)[1].tolist() == [[7, 31, 48]]


def test_fewer_possible_tokens_than_beams(threads: int, tiny_model: Any) -> None:
    """What is impossible never comes before what is possible."""
    choose = tiny_model.networks(faithful=False).decoder.native.likeliest
    logits = torch.full((1, 90), -INFINITY)
    logits[0, [3, 80]] = torch.tensor([1.0, 2.0])
    gains, tokens = choose(logits, 4)
    assert tokens[0, :2].tolist() == [80, 3]
    assert gains[0, 2:].tolist() == [-INFINITY, -INFINITY]
    beam = Beam(2, 1.0, 89, choose)
    assert beam.update(logits) == [0, 0]
    assert beam.sampled == [[80], [3]]
