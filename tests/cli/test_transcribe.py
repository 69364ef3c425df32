"""`stoker transcribe` on a small fake model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Run
from tests.speech.fakes import FakeWhisper, make_service
from tests.speech.sounds import tone, wav16

from stoker.cli import speech


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> FakeWhisper:
    model = FakeWhisper([" Hellö there."])
    monkeypatch.setattr(speech, "local_service", lambda *_: make_service(model, idle_unload_s=None))
    return model


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    path = tmp_path / "talk.wav"
    path.write_bytes(wav16(tone(1.0)))
    return path


def test_text(stoker: Run, model: FakeWhisper, talk: Path) -> None:
    assert stoker("transcribe", str(talk)) == (0, "Hellö there.\n", "")


@pytest.mark.parametrize(
    ("format", "start"),
    [("srt", "1\n00:00:00,000 --> 00:00:01,000\n"), ("vtt", "WEBVTT\n\n00:00:00.000"), ("text", "Hellö")],
)
def test_formats(stoker: Run, model: FakeWhisper, talk: Path, format: str, start: str) -> None:
    code, out, _ = stoker("transcribe", str(talk), "--format", format)
    assert code == 0
    assert out.startswith(start)


def test_json(stoker: Run, model: FakeWhisper, talk: Path) -> None:
    _, out, _ = stoker("transcribe", str(talk), "--format", "json")
    assert json.loads(out)["text"] == "Hellö there."
    _, out, _ = stoker("transcribe", str(talk), "--format", "verbose_json", "--word-timestamps")
    assert json.loads(out)["words"][0]["word"] == " Hello"


def test_options(stoker: Run, model: FakeWhisper, talk: Path) -> None:
    flags = "--language german --task translate --beam-size 5 --no-fallback --no-condition --no-timestamps"
    assert stoker("transcribe", str(talk), *flags.split(), "--vocabulary", "Ada, Bea")[0] == 0
    options = model.takes[0].options
    assert (options.language, options.task, options.beam_size, options.temperatures) == (
        "de",
        "translate",
        5,
        (0.0,),
    )
    assert (options.condition_on_previous_text, options.without_timestamps) == (False, True)
    assert options.vocabulary == ("Ada", "Bea")


def test_several_files_one_of_them_bad(stoker: Run, model: FakeWhisper, talk: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.wav"
    bad.write_text("no audio")
    code, out, err = stoker("transcribe", str(bad), str(tmp_path / "none.wav"), str(talk))
    assert (code, out) == (1, "Hellö there.\n")
    assert "bad.wav: undecodable audio" in err
    assert "none.wav: No such file" in err


def test_a_file_for_each(stoker: Run, model: FakeWhisper, talk: Path, tmp_path: Path) -> None:
    code, out, err = stoker("transcribe", str(talk), "-f", "srt", "--output-dir", str(tmp_path / "subs"))
    assert (code, out) == (0, "")
    assert (tmp_path / "subs" / "talk.srt").read_text(encoding="utf-8").startswith("1\n")
    assert "talk.srt" in err


def test_silence_prints_nothing(stoker: Run, model: FakeWhisper, tmp_path: Path) -> None:
    path = tmp_path / "silence.wav"
    path.write_bytes(wav16(np.zeros(48_000)))
    assert stoker("transcribe", str(path), "--vad") == (0, "", "")
    assert not model.takes


def test_verbose(stoker: Run, model: FakeWhisper, talk: Path) -> None:
    _, out, err = stoker("transcribe", str(talk), "--verbose")
    assert out == "Hellö there.\n"
    assert "[    0.00 -     1.00] Hellö there." in err
    assert "times real time" in err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--format", "xml"], "--format must be one of"),
        (["--task", "sing"], "--task must be"),
        (["--temperature", "3"], "temperature must be in [0, 1]"),
        (["--beam-size", "99"], "beam_size must be an integer in [1, 16]"),
        (["--language", "xx"], "unsupported language: xx"),
    ],
)
def test_bad_flags(stoker: Run, model: FakeWhisper, talk: Path, flags: list[str], message: str) -> None:
    code, out, err = stoker("transcribe", str(talk), *flags)
    assert code != 0
    assert out == ""
    assert message in err


def test_no_model(stoker: Run, talk: Path) -> None:
    code, _, err = stoker("transcribe", str(talk))
    assert code == 1
    assert "stoker get whisper-base" in err
