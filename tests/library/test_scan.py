from __future__ import annotations

import json
import os
from pathlib import Path

from stoker.library import list_models, scan

from .conftest import Places
from .toy_models import write_checkpoint, write_gguf, write_json, write_snapshot

OLD, NEW = "a" * 40, "b" * 40


def ids() -> list[str]:
    return [model.id for model in list_models()]


def test_both_places(places: Places, tmp_path: Path) -> None:
    write_snapshot(places.cache, "org/chat", OLD, write_checkpoint(tmp_path / "c"))
    write_gguf(places.store / "mine" / "x.gguf")
    write_gguf(places.store / "loose.gguf")
    write_checkpoint(places.store / "org" / "deep")
    assert ids() == ["loose", "mine", "org/chat", "org/deep"]
    assert [model.source for model in list_models()] == ["store", "store", "hub", "store"]


def test_empty_and_absent_places(places: Places) -> None:
    assert list_models() == []
    places.cache.mkdir(parents=True)
    (places.cache / "version.txt").write_text("1")
    (places.cache / "models--org--bare").mkdir()
    assert scan().models == scan().unusable == ()


def test_canonical_snapshot_is_refs_main_else_the_newest(places: Places, tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "c")
    old = write_snapshot(places.cache, "org/chat", OLD, source, main=False)
    new = write_snapshot(places.cache, "org/chat", NEW, source, main=False)
    os.utime(old, (1, 1))
    assert [model.revision for model in list_models()] == [NEW]
    write_snapshot(places.cache, "org/other", OLD, source)
    (places.cache / "models--org--chat" / "refs").mkdir()
    (places.cache / "models--org--chat" / "refs" / "main").write_text(OLD + "\n")
    assert [model.revision for model in list_models()] == [OLD, OLD]
    every = [(model.id, model.revision, model.canonical) for model in list_models(all_revisions=True)]
    assert every == [("org/chat", OLD, True), ("org/chat", NEW, False), ("org/other", OLD, True)]
    assert new.is_dir()


def test_partial_refresh_hides_nothing(places: Places, tmp_path: Path) -> None:
    """refs/main already names a snapshot whose weights are not there yet."""
    source = write_checkpoint(tmp_path / "c")
    write_snapshot(places.cache, "org/chat", OLD, source)
    (source / "model.safetensors").unlink()
    write_snapshot(places.cache, "org/chat", NEW, source)
    [model] = list_models()
    assert (model.revision, model.canonical) == (OLD, False)
    assert scan().unusable == ()


def test_partial_downloads_are_never_listed(places: Places, tmp_path: Path) -> None:
    source = write_checkpoint(tmp_path / "c")
    snapshot = write_snapshot(places.cache, "org/chat", OLD, source)
    (snapshot / "tokenizer.json").unlink()
    assert ids() == []
    assert "no tokenizer" in scan().unusable[0].reason
    write_snapshot(places.cache, "org/dangling", OLD, source)
    for blob in (places.cache / "models--org--dangling" / "blobs").iterdir():
        blob.rename(blob.with_name(blob.name + ".incomplete"))
    write_gguf(places.store / ".staging" / "x" / "x.gguf")
    (places.store / "y.gguf.incomplete").write_bytes(b"GGUF")
    assert ids() == []


def test_gguf_repository_has_an_entry_for_each_quantization(places: Places, tmp_path: Path) -> None:
    write_gguf(tmp_path / "g" / "m-Q4_K_M.gguf")
    write_gguf(tmp_path / "g" / "Q8_0" / "m-Q8_0-00001-of-00001.gguf")
    write_snapshot(places.cache, "org/m-GGUF", OLD, tmp_path / "g")
    assert ids() == ["org/m-GGUF:Q4_K_M", "org/m-GGUF:Q8_0"]
    assert {model.repo_id for model in list_models()} == {"org/m-GGUF"}


def test_damaged_models_do_not_break_the_listing(places: Places, tmp_path: Path) -> None:
    write_snapshot(places.cache, "org/good", OLD, write_checkpoint(tmp_path / "c"))
    broken = write_checkpoint(places.store / "broken")
    (broken / "config.json").write_bytes(b"\xff")
    (places.store / "bad.gguf").write_bytes(b"not gguf at all, but long enough to read")
    (places.cache / "models--org--odd" / "snapshots").mkdir(parents=True)
    (places.cache / "models--org--odd" / "snapshots" / "file").write_text("x")
    (places.cache / "models--org--loop" / "snapshots").mkdir(parents=True)
    loop = places.cache / "models--org--loop" / "snapshots" / "loop"
    loop.symlink_to(loop)
    found = scan()
    assert [model.id for model in found.models] == ["org/good"]
    assert sorted(item.id for item in found.unusable) == ["bad", "broken"]


def test_manifest_must_fit_the_files(places: Places) -> None:
    path = write_gguf(places.store / "folder" / "x.gguf")
    manifest = {"schema": 1, "id": "real-id", "files": {"x.gguf": {"size_bytes": path.stat().st_size}}}
    write_json(path.parent / "stoker.json", manifest)
    assert ids() == ["real-id"]
    manifest["files"] = {"x.gguf": {"size_bytes": 1}}
    write_json(path.parent / "stoker.json", manifest)
    assert "recorded size" in scan().unusable[0].reason
    manifest["files"] = {"gone.gguf": {"size_bytes": 1}}
    write_json(path.parent / "stoker.json", manifest)
    assert scan().unusable[0].reason == "gone.gguf is missing"
    (path.parent / "stoker.json").write_text(json.dumps([]))
    assert "stoker.json" in scan().unusable[0].reason
    assert ids() == []


def test_listing_does_not_import_torch(places: Places) -> None:
    import subprocess
    import sys

    code = "import sys, stoker.library as lib; lib.scan(); assert not {'torch', 'httpx'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)
