"""`stoker ls`, `rm` and `get`: what they show, ask and delete. Downloads are tested with the library."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from stoker.cli import ls
from stoker.library.entry import ModelEntry


@pytest.fixture
def store(home: Path, tiny_model: Path, tiny_base_model: Path) -> Path:
    folder = home / "models"
    shutil.copytree(tiny_model, folder / "tiny-chat")
    shutil.copytree(tiny_base_model, folder / "tiny-base")
    return folder


def test_ls_lists_what_is_in_the_store(stoker: Run, store: Path):
    code, out, err = stoker("ls")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["MODEL", "KIND", "ARCHITECTURE", "WEIGHTS", "SIZE", "FROM"]
    assert [line[:4] for line in lines[1:]] == [
        ["tiny-base", "text", "llama", "safetensors"],
        ["tiny-chat", "chat", "llama", "safetensors"],
    ]


def test_ls_json_is_complete_and_filters_narrow_it(stoker: Run, store: Path):
    rows = json.loads(stoker("ls", "--json", "chat")[1])
    assert [row["id"] for row in rows] == ["tiny-chat"]
    assert rows[0]["path"] == str(store / "tiny-chat")
    assert rows[0]["context_length"] == 100_000
    assert json.loads(stoker("ls", "--json", "--max-size", "1kB")[1]) == []
    assert len(json.loads(stoker("ls", "--json", "--max-size", "1GB")[1])) == 2
    assert json.loads(stoker("ls", "--json", "--vision")[1]) == []
    code, out, err = stoker("ls", "nothing-like-this")
    assert (code, out) == (0, "")
    assert "No models match" in err


def test_ls_on_an_empty_machine_says_what_to_do(stoker: Run):
    assert stoker("ls") == (0, "", "No models yet. Try: stoker get\n")
    assert stoker("ls", "--json")[1] == "[]\n"


@pytest.mark.parametrize(
    ("text", "num_bytes"), [("10GB", 1e10), ("1.5 gb", 1.5e9), ("500M", 5e8), ("7", 7), ("2kB", 2000)]
)
def test_sizes(text: str, num_bytes: float):
    assert ls.parse_size(text) == num_bytes


@pytest.mark.parametrize("text", ["", "big", "10XB", "-1GB", "GB", "0"])
def test_sizes_that_are_none(stoker: Run, text: str):
    code, _, err = stoker("ls", "--max-size", text)
    assert code == 2
    assert "--max-size must be a size such as 10GB" in err


def test_rm_deletes_only_after_yes(stoker: Run, store: Path, monkeypatch: pytest.MonkeyPatch):
    code, _, err = stoker("rm", "tiny-chat")
    assert code == 2
    assert "--yes" in err

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    for answer, code in (("n\n", 1), ("y\n", 0)):
        assert (store / "tiny-chat").is_dir()
        _answer_with(monkeypatch, answer)
        assert stoker("rm", "tiny-chat")[0] == code
    assert not (store / "tiny-chat").exists()
    assert (store / "tiny-base").is_dir()

    code, _, err = stoker("rm", "base", "--yes")
    assert code == 2
    assert "'base' is only a part of tiny-base" in err
    assert (store / "tiny-base").is_dir()
    code, out, _ = stoker("rm", "tiny-base", "--yes")
    assert code == 0
    assert out.startswith("Deleted tiny-base, ")
    assert not (store / "tiny-base").exists()


def _answer_with(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    import io

    stdin = io.StringIO(text)
    stdin.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", stdin)


def test_rm_of_an_ambiguous_or_unknown_name_deletes_nothing(stoker: Run, store: Path):
    code, _, err = stoker("rm", "tiny", "--yes")
    assert code == 1
    assert "tiny-base" in err
    assert "tiny-chat" in err
    assert stoker("rm", "absent", "--yes")[0] == 1
    assert {path.name for path in store.iterdir()} >= {"tiny-chat", "tiny-base"}


def test_rm_leaves_models_outside_the_store_alone(stoker: Run, tiny_model: Path):
    code, _, err = stoker("rm", str(tiny_model), "--yes")
    assert code == 1
    assert "not managed by stoker" in err
    assert (tiny_model / "config.json").exists()


def test_get_without_a_name_lists_the_starters(stoker: Run):
    code, out, _ = stoker("get")
    assert code == 0
    assert "smollm2-135m-instruct" in out
    assert "Apache-2.0" in out


def test_get_passes_its_flags_on_and_prints_where_the_model_is(
    stoker: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    calls: list[tuple[str, dict[str, object]]] = []

    def get_model(name: str, **options: object) -> ModelEntry:
        calls.append((name, options))
        return ModelEntry("org/repo", tmp_path, "gguf", "chat", "llama", 98_400_000, "hub", 0.0)

    monkeypatch.setattr("stoker.library.download.get_model", get_model)
    code, out, err = stoker("get", "org/repo", "--revision=v2", "--accept-license", "--force")
    assert (code, out, err) == (0, f"org/repo  98.4 MB  {tmp_path}\n", "")
    name, options = calls[0]
    assert name == "org/repo"
    assert (options["revision"], options["accept_license"], options["force"]) == ("v2", True, True)


def test_get_does_not_agree_to_a_licence_for_the_user(stoker: Run):
    code, _, err = stoker("get", "gemma-3-270m")
    assert code == 1
    assert "Gemma Terms of Use" in err
    assert "--accept-license" in err


def test_get_of_a_name_that_is_none(stoker: Run):
    code, _, err = stoker("get", "smolm2-135")
    assert code == 1
    assert "smollm2-135m-instruct" in err
