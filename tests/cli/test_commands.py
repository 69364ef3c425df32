"""The command tree: verbs, help, flags in their spellings, mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run

from stoker import __version__
from stoker.cli import VERBS, normalize
from stoker.cli.options import option_help
from stoker.config import SETTINGS


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ([], ["serve"]),
        (["--port", "9000"], ["serve", "--port", "9000"]),
        (["-q", "smol"], ["serve", "-q", "smol"]),
        (["--help"], ["--help"]),
        (["-v"], ["-v"]),
        (["help"], ["--help"]),
        (["help", "serve"], ["serve", "--help"]),
        (["ls", "--json"], ["ls", "--json"]),
    ],
)
def test_the_verb_is_made_explicit(given: list[str], meant: list[str]):
    assert normalize(given) == meant


@pytest.mark.parametrize("verb", [*VERBS, "gen"])
def test_every_command_has_help_with_an_example(stoker: Run, verb: str):
    code, out, _ = stoker(verb, "--help")
    assert code == 0
    assert f"Usage: stoker {verb}" in out
    assert verb == "version" or f"  stoker {'generate' if verb == 'gen' else verb}" in out
    assert stoker("help", verb)[1] == out


def test_the_list_of_verbs_is_shown(stoker: Run):
    code, out, _ = stoker("--help")
    assert code == 0
    for verb in VERBS:
        assert f"\n  {verb} " in out


@pytest.mark.parametrize("spelling", [["--version"], ["-v"], ["version"]])
def test_version(stoker: Run, spelling: list[str]):
    assert stoker(*spelling) == (0, f"stoker {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (["serve", "--prot", "9000"], "--port"),
        (["--temprature", "1"], "--temperature"),
        (["generate", "--max-token=3", "hi"], "--max-tokens"),
        (["ls", "--jsn"], "--json"),
        (["srve"], "serve"),
    ],
)
def test_a_mistyped_word_is_an_error_with_the_nearest_one(stoker: Run, arguments: list[str], suggestion: str):
    code, out, err = stoker(*arguments)
    assert code == 2
    assert out == ""
    assert suggestion in err


@pytest.mark.parametrize("flag", ["--draft-model", "--isolate"])
def test_flags_that_are_not_built_are_errors(stoker: Run, flag: str):
    code, _, err = stoker("serve", flag, "x")
    assert code == 2
    assert f"No such option: {flag}" in err


def test_bad_settings_end_with_code_2_and_one_sentence(stoker: Run, monkeypatch: pytest.MonkeyPatch):
    assert stoker("serve", "--port=x") == (
        2,
        "",
        "stoker: --port must be a whole number (0 to 65535), not 'x'\n",
    )
    monkeypatch.setenv("MLX_BUN_TEMPERATURE", "9")
    assert stoker("serve") == (2, "", "stoker: MLX_BUN_TEMPERATURE must be 0 to 5, not 9\n")


def test_both_spellings_and_aliases_reach_the_settings(stoker: Run, tmp_path: Path):
    # A missing model ends serve before anything is loaded; a bad value is found before that.
    assert "--temperature must be 0 to 5, not 7" in stoker("serve", "--temp", "7")[2]
    assert "--batch must be 1 to 1024, not 0" in stoker("serve", "--decode-concurrency=0")[2]
    # The main name wins over the alias, whichever comes last.
    assert "not 8" in stoker("serve", "--temperature", "8", "--temp", "0.1")[2]
    assert "not 8" in stoker("serve", "--temp", "0.1", "--temperature", "8")[2]


def test_model_beats_positional_beats_query_beats_the_environment(
    stoker: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("STOKER_MODEL", "from-environment")
    every = ["serve", "--port=0", "positional", "--query", "from-query", "--model", "from-flag"]
    assert "from-flag" in stoker(*every)[2]
    assert "positional" in stoker(*every[:5])[2]
    assert "from-query" in stoker(*every[:2], *every[3:5])[2]
    code, _, err = stoker(*every[:2])
    assert code == 1
    assert "from-environment" in err


def test_the_config_flag_names_the_file(stoker: Run, tmp_path: Path):
    path = tmp_path / "own.toml"
    path.write_text("batch = 0")
    code, _, err = stoker("serve", "--config", str(path))
    assert code == 2
    assert f"batch in {path} must be 1 to 1024" in err


def test_help_of_an_option_says_default_range_alias_and_environment():
    assert option_help(SETTINGS["temperature"]) == (
        "Randomness; 0 always takes the likeliest token. 0 to 5. Also --temp. "
        "Default: the model's generation_config.json, else 0.7. [STOKER_TEMPERATURE]"
    )
