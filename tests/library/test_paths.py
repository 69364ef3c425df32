from __future__ import annotations

from pathlib import Path

import pytest

from stoker.library import paths

from .conftest import Places


@pytest.mark.parametrize(
    ("env", "cache", "store"),
    [
        ({}, "/home/u/.cache/huggingface/hub", "/home/u/.cache/stoker/models"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub", "/x/stoker/models"),
        ({"HF_HOME": "/hf", "XDG_CACHE_HOME": "/x"}, "/hf/hub", "/x/stoker/models"),
        ({"HF_HUB_CACHE": "/c", "HF_HOME": "/hf"}, "/c", "/home/u/.cache/stoker/models"),
        ({"HF_HOME": "~/hf", "STOKER_HOME": "~/s"}, "/home/u/hf/hub", "/home/u/s/models"),
        (
            {"HF_HUB_CACHE": "", "STOKER_HOME": ""},
            "/home/u/.cache/huggingface/hub",
            "/home/u/.cache/stoker/models",
        ),
    ],
)
def test_places(
    places: Places, monkeypatch: pytest.MonkeyPatch, env: dict[str, str], cache: str, store: str
) -> None:
    for name in ("HF_HOME", "STOKER_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/u")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert (paths.hub_cache_dir(), paths.store_dir()) == (Path(cache), Path(store))


def test_token_order(places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert paths.hub_token() is None
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text("from_home\n")
    assert paths.hub_token() == "from_home"
    (tmp_path / "t").write_text(" from_path ")
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "t"))
    assert paths.hub_token() == "from_path"
    monkeypatch.setenv("HF_TOKEN", "from_env")
    assert paths.hub_token() == "from_env"
    assert paths.hub_token("given") == "given"
    assert paths.hub_token("") is None
