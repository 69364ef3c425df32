"""`stoker generate` in this process, against a tiny random model."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run

GREEDY = ("--temperature", "0", "--max-tokens", "12")


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch):
    def give(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    return give


def test_the_prompt_may_come_from_four_places(stoker: Run, tiny_model: Path, stdin):
    code, expected, err = stoker("generate", str(tiny_model), "Hello", *GREEDY)
    assert (code, err) == (0, "")
    assert len(expected.rstrip("\n")) == 12  # one character per token
    assert stoker("generate", "--model", str(tiny_model), "Hello", *GREEDY)[1] == expected
    assert stoker("gen", "-q", str(tiny_model), "--prompt=Hello", *GREEDY)[1] == expected
    stdin("Hello")
    assert stoker("generate", str(tiny_model), "-p", "-", *GREEDY)[1] == expected
    stdin("Hello")
    assert stoker("generate", "--model", str(tiny_model), *GREEDY)[1] == expected


def test_the_path_of_a_model_is_no_prompt(stoker: Run, tiny_model: Path, tmp_path: Path, stdin):
    expected = stoker("generate", str(tiny_model), "Hello", *GREEDY)[1]
    stdin("Hello")
    assert stoker("generate", str(tiny_model), *GREEDY)[1] == expected
    (tmp_path / "broken.gguf").write_bytes(b"no model")
    stdin("Hello")
    code, _, err = stoker("generate", str(tmp_path / "broken.gguf"))
    assert (code, "broken.gguf cannot be used" in err) == (1, True)
    # Anything else is one, also what could never be a path.
    for prompt in ("no/such.gguf", "x" * 5000, str(tmp_path)):
        assert stoker("generate", prompt, "--model", str(tiny_model), "--raw", *GREEDY)[0] == 0


def test_raw_continues_the_text_without_the_template(stoker: Run, tiny_model: Path):
    templated = stoker("generate", str(tiny_model), "Hello", *GREEDY)[1]
    raw = stoker("generate", str(tiny_model), "--prompt", "Hello", "--raw", *GREEDY)[1]
    # The template written out by hand and given raw is the same prompt.
    by_hand = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert stoker("generate", str(tiny_model), by_hand, "--raw", *GREEDY)[1] == templated != raw


def test_a_system_message_changes_the_prompt(stoker: Run, tiny_model: Path):
    plain = stoker("generate", str(tiny_model), "Hello", *GREEDY)[1]
    code, with_system, _ = stoker("generate", str(tiny_model), "Hello", "--system", "Be brief.", *GREEDY)
    assert code == 0
    assert with_system != plain
    assert stoker("generate", str(tiny_model), "Hello", "--raw", "--system", "x")[0] == 2


def test_a_model_without_template_continues_the_text_and_says_so(stoker: Run, tiny_base_model: Path):
    code, out, err = stoker("generate", str(tiny_base_model), "Hello", *GREEDY)
    assert code == 0
    assert len(out) == 13
    assert "tiny-base has no chat template" in err


def test_the_seed_repeats_an_answer(stoker: Run, tiny_model: Path):
    def answer(seed: str) -> str:
        return stoker(
            "generate", str(tiny_model), "Hello", "--temp", "5", "--max-tokens", "20", "--seed", seed
        )[1]

    assert answer("1") == answer("1") != answer("2")


def test_verbose_puts_counts_and_speeds_on_stderr(stoker: Run, tiny_model: Path):
    quiet = stoker("generate", str(tiny_model), "Hello", *GREEDY)[1]
    code, out, err = stoker("generate", str(tiny_model), "Hello", "--verbose", *GREEDY)
    assert (code, out) == (0, quiet)
    assert "Loading tiny-chat" in err
    assert "answer: 12 tokens" in err


def test_mistakes_are_found_before_the_model_is_loaded(stoker: Run, stdin):
    assert stoker("generate", "m", "text", "--prompt", "text")[0] == 2
    stdin("")
    code, _, err = stoker("generate", "--model", "m", "--prompt", "-")
    assert (code, err) == (2, "stoker: the prompt is empty\n")
    code, _, err = stoker("generate", "no-such-model", "text")
    assert code == 1
    assert "no model matches 'no-such-model'" in err


def test_a_prompt_that_is_too_long_is_one_sentence(stoker: Run, tiny_model: Path):
    code, _, err = stoker("generate", str(tiny_model), "x" * 100, "--raw", "--context-limit", "64")
    assert code == 1
    assert "prompt is too long" in err
    assert "Traceback" not in err


def test_without_a_model_the_store_decides(stoker: Run, tiny_model: Path, home: Path):
    store = home / "models"
    store.mkdir(parents=True)
    os.symlink(tiny_model, store / "only-one")
    code, out, _ = stoker("generate", "Hello", *GREEDY)
    assert code == 0
    assert len(out) == 13


@pytest.mark.parametrize(
    ("target", "encoding", "code"), [("/dev/null", "ascii", 0), ("/dev/full", "utf-8", 1)]
)
def test_output_that_cannot_take_everything(tiny_model: Path, target: str, encoding: str, code: int):
    """A terminal without the characters, a full disk: one sentence at most, never a trace."""
    with open(target, "w") as out:
        ended = subprocess.run(
            [sys.executable, "-m", "stoker", "generate", str(tiny_model), "é", *GREEDY],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONIOENCODING": encoding},
            timeout=120,
        )
    assert ended.returncode == code
    assert "Traceback" not in ended.stderr
    assert ("No space left" in ended.stderr) == (code == 1)
