"""Which model runs when none is named."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from stoker.cli import choose
from stoker.cli.choose import PREFERRED_MODELS, STARTER_MODEL, choose_model
from stoker.library.catalog import catalog_model
from stoker.library.entry import ModelEntry

GB = 10**9


@dataclass(frozen=True)
class Model:
    id: str
    size_bytes: int


def test_the_largest_that_fits_with_room_for_its_context():
    models = [Model("small", 1 * GB), Model("medium", 8 * GB), Model("just-too-large", 9 * GB)]
    assert choose_model(models, usable_bytes=11 * GB) == models[1]
    assert choose_model(models, usable_bytes=1 * GB) is None
    assert choose_model([], usable_bytes=11 * GB) is None


def test_a_preferred_model_wins_if_it_fits():
    preferred = Model(PREFERRED_MODELS[0].upper(), 2 * GB)
    models = [Model("larger", 8 * GB), preferred]
    assert choose_model(models, usable_bytes=11 * GB) == preferred
    assert choose_model([Model("small", GB), preferred], usable_bytes=2 * GB) == Model("small", GB)


def test_the_starter_is_in_the_catalog_and_can_chat():
    starter = catalog_model(STARTER_MODEL)
    assert starter is not None
    assert starter.kind == "chat"
    assert not starter.license.must_accept


def test_a_fresh_machine_downloads_the_starter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    entry = ModelEntry(STARTER_MODEL, tmp_path, "gguf", "chat", "llama", 1, "store", 0.0)
    asked: list[str] = []

    def get_model(name: str, **_: object) -> ModelEntry:
        asked.append(name)
        return entry

    monkeypatch.setattr("stoker.library.download.get_model", get_model)
    assert choose.find_or_choose(None) is entry
    assert asked == [STARTER_MODEL]
    assert "downloading the starter" in capsys.readouterr().err


def test_a_named_embedding_model_is_no_choice(stoker: Run, home: Path):
    folder = home / "models" / "embedder"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    code, _, err = stoker("serve", "embedder", "--port", "0")
    assert code == 1
    assert err.startswith("stoker: ")
