"""The same weights in every format give transformers' encoder output and logits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from stoker.errors import CorruptModel, ModelNotFound, UnsupportedModel
from stoker.kernels import native
from stoker.speech.whisper import load_whisper
from stoker.speech.whisper.checkpoint import open_whisper
from stoker.speech.whisper.decoder import Window

from . import tiny

TOKENS = [257, 258, 262, tiny.TIMESTAMP_BEGIN, 40, 41, 42, 200, 17, tiny.TIMESTAMP_BEGIN + 30]

Write = Callable[[Any, Path], Path]
FORMATS: dict[str, tuple[Write, float]] = {  # and how far rounding in storage may move things
    "hf float32": (tiny.write_hf, 1e-4),
    "hf bfloat16": (lambda m, p: tiny.write_hf(m, p, torch.bfloat16), 3e-2),
    "ct2 float32": (lambda m, p: tiny.write_ct2(m, p, "float32"), 1e-4),
    "ct2 float16": (lambda m, p: tiny.write_ct2(m, p, "float16"), 5e-3),
    "ct2 int8": (lambda m, p: tiny.write_ct2(m, p, "int8"), 8e-2),
    "mlx npz": (tiny.write_mlx, 1e-4),
    "mlx safetensors": (lambda m, p: tiny.write_mlx(m, p, "safetensors"), 1e-4),
    "mlx npz 8 bits": (lambda m, p: tiny.write_mlx(m, p, "npz", 8), 8e-2),
    "mlx safetensors 8 bits": (lambda m, p: tiny.write_mlx(m, p, "safetensors", 8), 8e-2),
}


def distance(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())


@pytest.mark.parametrize("faithful", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_encoder_and_logits_equal_transformers(
    name: str, faithful: bool, reference: Any, tmp_path: Path
) -> None:
    write, tolerance = FORMATS[name]
    model = load_whisper(write(reference, tmp_path / "checkpoint"), faithful=faithful)
    mel = torch.randn(tiny.NUM_MELS, 2 * tiny.AUDIO_CTX, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        theirs = reference(input_features=mel[None], decoder_input_ids=torch.tensor([TOKENS]))
        audio = model.networks(faithful=faithful).encoder(mel)
        decoder = model.networks(faithful=faithful).decoder
        window = Window(decoder, decoder.cross(audio), 2)
        prompt = decoder.logits(window.begin(TOKENS[:5]))
        window.select([0, 0])  # two rows that share their beginning
        steps = [window.step([token, 5 if i else token])[0] for i, token in enumerate(TOKENS[5:])]
    assert distance(audio, theirs.encoder_last_hidden_state[0]) < tolerance
    # The fast path rounds matrices to int8 and keeps keys and values in float16.
    rounding = 0 if faithful else 3e-2
    assert distance(torch.cat([prompt, torch.stack(steps)]), theirs.logits[0]) < tolerance + rounding
    assert model.alignment_heads == ((1, 0), (1, 3))


def test_the_native_encoder_stays_close_to_its_definition(tmp_path: Path) -> None:
    """Heads of 16, so that the kernels take them: 13-bit codes against float32."""
    model = load_whisper(tiny.write_hf(tiny.tiny_reference(width=16 * tiny.HEADS), tmp_path / "checkpoint"))
    fast, exact = model.networks(faithful=False).encoder, model.networks(faithful=True).encoder
    assert fast.is_native == (native.library() is not None)
    assert not exact.is_native
    mel = torch.randn(tiny.NUM_MELS, 2 * tiny.AUDIO_CTX, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert distance(fast(mel), exact(mel)) < 2e-3


@pytest.mark.parametrize("sound", [0, 1, 2, 57, 150, 194, 195, 200])
def test_what_lies_behind_the_sound_is_convolved_once(sound: int, tmp_path: Path) -> None:
    model = load_whisper(tiny.write_hf(tiny.tiny_reference(width=16 * tiny.HEADS), tmp_path / "checkpoint"))
    encoder = model.networks(faithful=False).encoder
    mel = torch.randn(tiny.NUM_MELS, 2 * tiny.AUDIO_CTX, generator=torch.Generator().manual_seed(sound))
    mel[:, sound:] = 0
    with torch.inference_mode():
        assert torch.equal(encoder._convolve(mel.T), encoder._conv2(encoder._conv1(mel.T)))


def test_rows_that_part_do_not_disturb_each_other(tiny_model: Any, reference: Any) -> None:
    mel = torch.randn(tiny.NUM_MELS, 2 * tiny.AUDIO_CTX, generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        decoder = tiny_model.networks(faithful=True).decoder
        window = Window(decoder, decoder.cross(tiny_model.networks(faithful=True).encoder(mel)), 3)
        window.begin(TOKENS[:3])
        window.select([0, 0, 0])
        window.step([1, 2, 3])
        window.select([2, 0, 2])
        ours = window.step([7, 8, 9])
        wanted = [[*TOKENS[:3], 3, 7], [*TOKENS[:3], 1, 8], [*TOKENS[:3], 3, 9]]
        theirs = reference(
            input_features=mel[None].expand(3, -1, -1), decoder_input_ids=torch.tensor(wanted)
        ).logits[:, -1]
    assert distance(ours, theirs) < 1e-4


def test_damaged_checkpoints_are_named(reference: Any, tmp_path: Path) -> None:
    ct2 = tiny.write_ct2(reference, tmp_path / "ct2")
    whole = (ct2 / "model.bin").read_bytes()
    for size in (10, 40, 1000, len(whole) - 20):
        (ct2 / "model.bin").write_bytes(whole[:size])
        with pytest.raises((CorruptModel, UnsupportedModel)):
            load_whisper(ct2)
    npz = tiny.write_mlx(reference, tmp_path / "mlx") / "weights.npz"
    npz.write_bytes(npz.read_bytes()[:-100])
    with pytest.raises(CorruptModel):
        load_whisper(npz.parent)
    hf = tiny.write_hf(reference, tmp_path / "hf")
    config = json.loads((hf / "config.json").read_text())
    (hf / "config.json").write_text(json.dumps(config | {"encoder_attention_heads": 5}))
    with pytest.raises(CorruptModel, match="5 heads"):
        load_whisper(hf)
    (hf / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(UnsupportedModel):
        load_whisper(hf)
    with pytest.raises(ModelNotFound):
        load_whisper(tmp_path / "nowhere")


def test_a_tokenizer_is_found_beside_other_checkpoints(
    reference: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny.write_mlx(reference, tmp_path / "mlx")
    cache = tmp_path / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("STOKER_HOME", str(tmp_path / "home"))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(CorruptModel, match=r"no tokenizer\.json"):
        load_whisper(folder)
    snapshot = cache / "models--openai--whisper-small" / "snapshots" / "1"
    tiny.write_common(snapshot)
    assert open_whisper(folder).read_tokenizer().token_to_id("<|startoftranscript|>") == 257
    shutil.rmtree(cache)
