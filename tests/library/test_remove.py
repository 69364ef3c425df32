from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stoker.errors import ModelError, ModelNotFound
from stoker.library import find_model, list_models, remove_model
from stoker.library.locks import file_lock
from stoker.library.paths import lock_folder

from .conftest import Places
from .toy_models import write_checkpoint, write_gguf, write_snapshot

OLD, NEW = "a" * 40, "b" * 40


def blobs(places: Places, repo_id: str = "org/toy") -> set[str]:
    folder = places.cache / ("models--" + repo_id.replace("/", "--")) / "blobs"
    return {path.name for path in folder.iterdir()}


def test_last_snapshot_takes_the_repository_with_it(places: Places, tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "c")
    write_snapshot(places.cache, "org/toy", OLD, source)
    size = sum(path.stat().st_size for path in source.iterdir())
    assert remove_model(find_model("toy")).freed_bytes == size
    assert list_models() == []
    assert not (places.cache / "models--org--toy").exists()


def test_blobs_of_other_snapshots_stay(places: Places, tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "c")
    write_snapshot(places.cache, "org/toy", OLD, source)
    before = blobs(places)
    (source / "tokenizer.json").write_text("{}")
    write_snapshot(places.cache, "org/toy", NEW, source)
    new = find_model("toy")
    assert new.revision == NEW
    removal = remove_model(new, all_revisions=False)
    assert removal.freed_bytes == 2  # the new tokenizer.json
    assert removal.kept_shared_bytes > 0
    assert blobs(places) == before
    assert find_model("toy").revision == OLD
    assert not (places.cache / "models--org--toy" / "refs" / "main").exists()


def test_by_default_every_revision_goes(places: Places, tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "c")
    write_snapshot(places.cache, "org/toy", OLD, source)
    write_snapshot(places.cache, "org/toy", NEW, source)
    size = sum(path.stat().st_size for path in source.iterdir())
    assert remove_model(find_model("toy")).freed_bytes == size
    assert list_models() == []


def test_one_quantization_of_several(places: Places, tmp_path: Path) -> None:
    small = write_gguf(tmp_path / "g" / "m-Q4_K_M.gguf")
    write_gguf(tmp_path / "g" / "m-Q8_0.gguf", rows=64)
    (tmp_path / "g" / "LICENSE").write_text("free")
    write_snapshot(places.cache, "org/m", OLD, tmp_path / "g")
    assert remove_model(find_model("org/m:Q4_K_M")).freed_bytes == small.stat().st_size
    assert [model.id for model in list_models()] == ["org/m:Q8_0"]
    remove_model(find_model("org/m"))
    assert not (places.cache / "models--org--m").exists()


def test_other_repositories_are_untouched(places: Places, tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "c")
    write_snapshot(places.cache, "org/toy", OLD, source)
    write_snapshot(places.cache, "org/toy2", OLD, source)
    remove_model(find_model("org/toy"))
    assert [model.id for model in list_models()] == ["org/toy2"]


def test_store_models(places: Places) -> None:
    write_gguf(places.store / "one" / "x.gguf")
    write_gguf(places.store / "loose.gguf")
    write_gguf(places.store / "two" / "a-Q4_0.gguf")
    write_gguf(places.store / "two" / "a-Q8_0.gguf")
    write_checkpoint(places.store / "org" / "deep")
    assert remove_model(find_model("one")).freed_bytes > 0
    assert not (places.store / "one").exists()
    remove_model(find_model("two:Q4_0"))
    remove_model(find_model("deep"))
    assert not (places.store / "org").exists()
    remove_model(find_model("loose"))
    assert [model.id for model in list_models()] == ["two"]


def test_a_link_in_the_store_is_cut_and_its_target_kept(places: Places, tmp_path: Path) -> None:
    target = write_checkpoint(tmp_path / "elsewhere")
    places.store.mkdir(parents=True)
    (places.store / "linked").symlink_to(target)
    assert remove_model(find_model("linked")).freed_bytes == 0
    assert (target / "model.safetensors").exists()
    assert list_models() == []


def test_paths_are_refused(places: Places, tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "mine")
    with pytest.raises(ModelError, match="not managed by stoker"):
        remove_model(find_model(str(folder)))
    assert folder.exists()


@pytest.mark.parametrize(
    "victim", ["outside", "stoker/models", "stoker/models/../../outside", "stoker/models/.staging"]
)
def test_forged_store_entries_are_refused(places: Places, tmp_path: Path, victim: str) -> None:
    write_gguf(places.store / "x.gguf")
    (tmp_path / victim).mkdir(parents=True, exist_ok=True)
    entry = replace(find_model("x"), path=tmp_path / victim)
    with pytest.raises(ModelError, match="nothing was deleted"):
        remove_model(entry)
    assert (tmp_path / victim).is_dir()


@pytest.mark.parametrize("revision", ["..", "../../..", "", None])
def test_forged_hub_entries_are_refused(places: Places, tmp_path: Path, revision: str | None) -> None:
    write_snapshot(places.cache, "org/toy", OLD, write_checkpoint(tmp_path / "c"))
    entry = find_model("toy")
    with pytest.raises(ModelError):
        remove_model(replace(entry, revision=revision))
    with pytest.raises(ModelError):
        remove_model(replace(entry, weights=(tmp_path / "c" / "model.safetensors",)))
    assert find_model("toy") == entry


def test_link_out_of_the_cache_is_cut_and_its_target_kept(places: Places, tmp_path: Path) -> None:
    snapshot = write_snapshot(places.cache, "org/toy", OLD, write_checkpoint(tmp_path / "c"))
    (snapshot / "tokenizer.json").unlink()
    (snapshot / "tokenizer.json").symlink_to(tmp_path / "c" / "tokenizer.json")
    remove_model(find_model("toy"))
    assert (tmp_path / "c" / "tokenizer.json").exists()


def test_gone_already(places: Places, tmp_path: Path) -> None:
    write_gguf(places.store / "x.gguf")
    write_snapshot(places.cache, "org/toy", OLD, write_checkpoint(tmp_path / "c"))
    for entry in list_models():
        remove_model(entry)
        with pytest.raises(ModelNotFound, match="already gone"):
            remove_model(entry)


def test_not_while_it_is_being_downloaded(places: Places, tmp_path: Path) -> None:
    write_snapshot(places.cache, "org/toy", OLD, write_checkpoint(tmp_path / "c"))
    entry = find_model("toy")
    with file_lock(lock_folder(places.cache, "org/toy") / "abc.lock"):
        with pytest.raises(ModelError, match="is being downloaded"):
            remove_model(entry)
        assert find_model("toy") == entry
    remove_model(entry)
