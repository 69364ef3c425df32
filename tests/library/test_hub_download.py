"""Downloads from a hub that misbehaves: nothing half-written is ever used, and a retry resumes."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import pytest

from stoker.errors import DownloadError, ModelNotFound, UnsupportedModel
from stoker.library import disk, find_model, get_model, list_models, scan, transfer
from stoker.library.disk import DiskFull
from stoker.library.fetch import fetch_all
from stoker.library.hub import HubUnreachable

from .conftest import FAST, Places, Recorder
from .fake_hub import COMMIT, FakeHub, Fault, HubFile
from .toy_models import write_checkpoint, write_gguf

REPO = "org/toy"
WEIGHTS = "model.safetensors"
HALF = 60_000


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """A checkpoint whose weights are large enough to be cut: 120 kB of trailing bytes."""
    folder = write_checkpoint(tmp_path / "origin")
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    # Bytes after the last tensor are allowed by our check and make every chunk different.
    files[WEIGHTS] += random.Random(1).randbytes(2 * HALF)
    files["README.md"] = b"not needed"
    files["pytorch_model.bin"] = b"not needed"
    return files


@pytest.fixture
def toy(hub: FakeHub, files: dict[str, bytes]) -> FakeHub:
    hub.add(REPO, dict(files))
    return hub


def partials(places: Places) -> list[Path]:
    return sorted(places.cache.rglob("*.incomplete"))


def blob(places: Places, toy: FakeHub, name: str = WEIGHTS) -> Path:
    return places.cache / "models--org--toy" / "blobs" / toy.repos[REPO][name].digest


def test_layout_is_the_one_huggingface_hub_reads(
    toy: FakeHub, places: Places, files: dict[str, bytes]
) -> None:
    entry = get_model(REPO, options=FAST)
    assert (entry.id, entry.format, entry.kind, entry.revision) == (REPO, "safetensors", "chat", COMMIT)
    assert blob(places, toy).read_bytes() == files[WEIGHTS]
    assert (entry.path / WEIGHTS).is_symlink()
    # The other library, offline, finds the same files in it.
    found = huggingface_hub.try_to_load_from_cache(REPO, WEIGHTS, cache_dir=places.cache, revision="main")
    assert isinstance(found, str)
    assert Path(found).read_bytes() == files[WEIGHTS]
    snapshot = huggingface_hub.snapshot_download(REPO, cache_dir=places.cache, local_files_only=True)
    assert Path(snapshot).resolve() == entry.path.resolve()
    [repo] = huggingface_hub.scan_cache_dir(places.cache).repos
    assert (repo.repo_id, repo.refs.keys()) == (REPO, {"main"})


def test_only_the_needed_files_are_fetched(toy: FakeHub, places: Places) -> None:
    entry = get_model(REPO, options=FAST)
    fetched = {"config.json", "tokenizer.json", "tokenizer_config.json", WEIGHTS}
    assert {path.name for path in entry.path.iterdir()} == fetched
    assert find_model("toy") == entry
    assert not partials(places)


def test_second_get_fetches_nothing(toy: FakeHub, places: Places) -> None:
    first = get_model(REPO, options=FAST)
    toy.seen.clear()
    assert get_model(REPO, options=FAST) == first
    assert [seen.path.partition("?")[0] for seen in toy.seen] == [f"/api/models/{REPO}/revision/main"]


def test_new_commit_shares_unchanged_blobs(toy: FakeHub, places: Places, files: dict[str, bytes]) -> None:
    old = get_model(REPO, options=FAST)
    toy.add(REPO, files | {"config.json": files["config.json"] + b" "}, commit="2" * 40)
    toy.seen.clear()
    new = get_model(REPO, options=FAST)
    assert [seen.path for seen in toy.seen if "resolve" in seen.path] == [
        f"/{REPO}/resolve/{'2' * 40}/config.json"
    ]
    assert new.revision == "2" * 40
    assert find_model(REPO).revision == "2" * 40
    assert (old.path / "config.json").read_bytes() == files["config.json"]


def test_dropped_connection_resumes_within_one_call(
    toy: FakeHub, places: Places, files: dict[str, bytes]
) -> None:
    toy.faults[WEIGHTS] = [Fault(drop_after=HALF)]
    entry = get_model(REPO, options=FAST)
    assert [seen.range for seen in toy.fetches(WEIGHTS)] == [None, f"bytes={HALF}-"]
    assert (entry.path / WEIGHTS).read_bytes() == files[WEIGHTS]


def test_failed_download_is_not_listed_and_the_next_call_resumes(
    toy: FakeHub, places: Places, files: dict[str, bytes]
) -> None:
    toy.faults[WEIGHTS] = [Fault(drop_after=HALF), Fault(status=503), Fault(status=503)]
    with pytest.raises(DownloadError, match=r"60\.0 kB of 120\.\d kB are kept"):
        get_model(REPO, options=FAST)
    assert [path.stat().st_size for path in partials(places)] == [HALF]
    assert not blob(places, toy).exists()
    assert list_models() == []
    with pytest.raises(ModelNotFound):
        find_model(REPO)
    toy.seen.clear()
    entry = get_model(REPO, options=FAST)
    assert [seen.range for seen in toy.fetches(WEIGHTS)] == [f"bytes={HALF}-"]
    assert (entry.path / WEIGHTS).read_bytes() == files[WEIGHTS]


def test_short_answer_is_resumed(toy: FakeHub, places: Places) -> None:
    toy.faults[WEIGHTS] = [Fault(end_after=1000)]
    get_model(REPO, options=FAST)
    assert [seen.range for seen in toy.fetches(WEIGHTS)] == [None, "bytes=1000-"]


def test_server_that_ignores_ranges_starts_over(
    toy: FakeHub, places: Places, files: dict[str, bytes]
) -> None:
    toy.faults[WEIGHTS] = [Fault(drop_after=HALF), Fault(ignore_range=True)]
    entry = get_model(REPO, options=FAST)
    assert (entry.path / WEIGHTS).read_bytes() == files[WEIGHTS]


def test_other_range_than_asked_is_not_used(toy: FakeHub, places: Places, files: dict[str, bytes]) -> None:
    toy.faults[WEIGHTS] = [Fault(drop_after=HALF), Fault(wrong_range=True)]
    entry = get_model(REPO, options=FAST)
    assert [seen.range for seen in toy.fetches(WEIGHTS)] == [None, f"bytes={HALF}-", None]
    assert (entry.path / WEIGHTS).read_bytes() == files[WEIGHTS]


@pytest.mark.parametrize("name", [WEIGHTS, "config.json"], ids=["sha256", "git-sha1"])
def test_wrong_bytes_end_in_an_error_and_leave_nothing(toy: FakeHub, places: Places, name: str) -> None:
    toy.faults[name] = [Fault(flip_byte=5)] * 2
    with pytest.raises(DownloadError, match="checksum mismatch"):
        get_model(REPO, options=FAST)
    assert not blob(places, toy, name).exists()
    assert not any(path.name.startswith(toy.repos[REPO][name].digest) for path in partials(places))
    assert list_models() == []
    get_model(REPO, options=FAST)


def test_damaged_partial_file_is_thrown_away(toy: FakeHub, places: Places, files: dict[str, bytes]) -> None:
    target = blob(places, toy)
    target.parent.mkdir(parents=True)
    transfer.partial_path(target).write_bytes(b"\0" * 5000)
    entry = get_model(REPO, options=FAST)
    assert [seen.range for seen in toy.fetches(WEIGHTS)] == ["bytes=5000-", None]
    assert (entry.path / WEIGHTS).read_bytes() == files[WEIGHTS]


@pytest.mark.parametrize("extra", [1, 300_000])
def test_partial_file_longer_than_the_file_is_thrown_away(
    toy: FakeHub, places: Places, files: dict[str, bytes], extra: int
) -> None:
    target = blob(places, toy)
    target.parent.mkdir(parents=True)
    transfer.partial_path(target).write_bytes(files[WEIGHTS] + b"x" * extra)
    entry = get_model(REPO, options=FAST)
    assert (entry.path / WEIGHTS).read_bytes() == files[WEIGHTS]


def test_complete_partial_file_is_verified_and_used(
    toy: FakeHub, places: Places, files: dict[str, bytes]
) -> None:
    """A kill between the last byte and the rename."""
    target = blob(places, toy)
    target.parent.mkdir(parents=True)
    transfer.partial_path(target).write_bytes(files[WEIGHTS])
    get_model(REPO, options=FAST)
    assert toy.fetches(WEIGHTS) == []
    assert target.read_bytes() == files[WEIGHTS]


def test_body_longer_than_listed_is_refused(toy: FakeHub, places: Places) -> None:
    toy.faults[WEIGHTS] = [Fault(extra=b"more")] * 2
    with pytest.raises(DownloadError, match="more than the announced"):
        get_model(REPO, options=FAST)
    assert not transfer.partial_path(blob(places, toy)).exists()
    assert not blob(places, toy).exists()


def test_size_listed_too_small_or_too_large_is_refused(
    hub: FakeHub, places: Places, files: dict[str, bytes]
) -> None:
    for lie in (-10, +10):
        weights = HubFile(files[WEIGHTS], facts={"size": len(files[WEIGHTS]) + lie})
        hub.add(REPO, files | {WEIGHTS: weights})
        with pytest.raises(DownloadError):
            get_model(REPO, options=FAST)
        assert list_models() == []


def test_listing_with_another_checksum_is_refused(
    hub: FakeHub, places: Places, files: dict[str, bytes]
) -> None:
    hub.add(REPO, files | {WEIGHTS: HubFile(files[WEIGHTS], facts={"sha256": "0" * 64})})
    with pytest.raises(DownloadError, match="checksum mismatch"):
        get_model(REPO, options=FAST)
    assert list_models() == []


@pytest.mark.parametrize("style", ['"{}"', 'W/"{}"', "{}"])
@pytest.mark.parametrize("lfs", [True, False])
def test_checksum_from_etag_variants(
    hub: FakeHub, places: Places, files: dict[str, bytes], style: str, lfs: bool
) -> None:
    """Mirrors whose listing has no checksums: the headers of the file itself are asked."""
    weights = HubFile(files[WEIGHTS], lfs=lfs, hidden=True)
    weights.etag = style.format(weights.digest.upper())
    hub.add(REPO, files | {WEIGHTS: weights})
    entry = get_model(REPO, options=FAST)
    assert (entry.path / WEIGHTS).resolve().name == weights.digest


def test_checksum_of_a_redirected_file_is_the_linked_one(
    hub: FakeHub, places: Places, files: dict[str, bytes]
) -> None:
    hub.add(REPO, files | {WEIGHTS: HubFile(files[WEIGHTS], hidden=True, etag='"cdn-private-etag"')})
    hub.use_cdn = True
    with pytest.raises(DownloadError, match="no checksum"):
        get_model(REPO, options=FAST)  # the CDN's own ETag proves nothing
    assert list_models() == []


def test_file_without_any_checksum_is_refused(hub: FakeHub, places: Places, files: dict[str, bytes]) -> None:
    hub.add(REPO, files | {WEIGHTS: HubFile(files[WEIGHTS], hidden=True, etag='"v1-of-the-day"')})
    with pytest.raises(DownloadError, match="no checksum"):
        get_model(REPO, options=FAST)
    assert not places.cache.exists()


def test_token_reaches_the_hub_and_not_the_cdn(
    toy: FakeHub, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.use_cdn = True
    toy.required_token = "hf_secret"
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    get_model(REPO, options=FAST)
    on_hub = [seen for seen in toy.seen if seen.server == "hub"]
    on_cdn = [seen for seen in toy.seen if seen.server == "cdn"]
    assert len(on_cdn) == 1
    assert all(seen.headers["authorization"] == "Bearer hf_secret" for seen in on_hub)
    assert all("authorization" not in seen.headers for seen in on_cdn)
    assert not any("hf_secret" in str(seen) for seen in on_cdn)


def test_resumed_transfer_through_the_cdn(toy: FakeHub, places: Places) -> None:
    toy.use_cdn = True
    toy.faults[WEIGHTS] = [Fault(drop_after=HALF)]
    get_model(REPO, options=FAST)
    assert [seen.range for seen in toy.fetches(WEIGHTS)] == [None, f"bytes={HALF}-"]


@pytest.mark.parametrize("status", [401, 403])
def test_refusal_names_gated_repositories_and_hf_token(toy: FakeHub, places: Places, status: int) -> None:
    toy.api_faults = [Fault(status=status, headers={"X-Error-Code": "GatedRepo"})]
    with pytest.raises(DownloadError, match=r"(?s)gated.*HF_TOKEN") as failure:
        get_model(REPO, options=FAST)
    assert f"{toy.url}/{REPO}" in failure.value.message


@pytest.mark.parametrize("status", [401, 403])
def test_refused_file_is_not_retried(toy: FakeHub, places: Places, status: int) -> None:
    toy.faults[WEIGHTS] = [Fault(status=status)]
    with pytest.raises(DownloadError, match="HF_TOKEN"):
        get_model(REPO, options=FAST)
    assert len(toy.fetches(WEIGHTS)) == 1


def test_error_does_not_show_the_token(toy: FakeHub, places: Places) -> None:
    toy.required_token = "another"
    with pytest.raises(DownloadError) as failure:
        get_model(REPO, token="hf_wrong", options=FAST)
    assert "hf_wrong" not in str(failure.value)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_busy_server_is_tried_again(toy: FakeHub, places: Places, status: int) -> None:
    toy.faults[WEIGHTS] = [Fault(status=status, headers={"Retry-After": "0"})] * 2
    get_model(REPO, options=FAST)
    assert len(toy.fetches(WEIGHTS)) == 3


def test_retry_after_is_respected_up_to_the_limit(toy: FakeHub, places: Places) -> None:
    toy.faults[WEIGHTS] = [Fault(status=429, headers={"Retry-After": "3600"})]
    begun = time.monotonic()
    get_model(REPO, options=replace(FAST, max_backoff_s=0.3))
    assert 0.3 <= time.monotonic() - begun < 5


def test_silent_server_times_out_and_is_tried_again(toy: FakeHub, places: Places) -> None:
    toy.faults[WEIGHTS] = [Fault(stall_s=1.0)]
    get_model(REPO, options=replace(FAST, read_timeout_s=0.2))
    assert len(toy.fetches(WEIGHTS)) == 2


@pytest.mark.parametrize(
    "name",
    [
        "../evil.json",
        "a/../../evil.json",
        "/etc/evil.json",
        "a//b.json",
        "..\\evil.json",
        "C:evil.json",
        "./a.json",
    ],
)
def test_unsafe_file_names_stop_everything(
    hub: FakeHub, places: Places, files: dict[str, bytes], name: str
) -> None:
    hub.add(REPO, files | {name: b"{}"})
    with pytest.raises(DownloadError, match="unsafe name"):
        get_model(REPO, options=FAST)
    assert not places.cache.exists()


@pytest.mark.parametrize("commit", ["main", "../../x", "1" * 39, ""])
def test_commit_must_be_a_commit(hub: FakeHub, places: Places, files: dict[str, bytes], commit: str) -> None:
    hub.add(REPO, dict(files), commit=commit)
    with pytest.raises(DownloadError, match="file list"):
        get_model(REPO, options=FAST)
    assert not places.cache.exists()


@pytest.mark.parametrize("name", ["../../etc", "org/..", "a/b/c", "org/na me", "org/"])
def test_repository_names_are_checked(hub: FakeHub, places: Places, name: str) -> None:
    with pytest.raises(ModelNotFound):
        get_model(name, options=FAST)
    assert hub.seen == []


def test_missing_repository_and_missing_weights(hub: FakeHub, places: Places) -> None:
    with pytest.raises(ModelNotFound, match="no such repository: org/absent"):
        get_model("org/absent", options=FAST)
    hub.add("org/old", {"config.json": b"{}", "pytorch_model.bin": b"x"})
    with pytest.raises(UnsupportedModel, match="no weights that stoker reads"):
        get_model("org/old", options=FAST)
    assert not places.cache.exists()


def test_space_is_checked_before_anything_is_fetched(
    toy: FakeHub, places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "free_bytes", lambda _folder: (1 << 30) + 50_000)
    with pytest.raises(DiskFull, match=r"12\d\.\d kB to download plus 1\.1 GB to keep free.*only 1\.1 GB"):
        get_model(REPO, options=replace(FAST, min_free_bytes=1 << 30))
    assert not any("resolve" in seen.path for seen in toy.seen)
    # What is already there does not count.
    target = blob(places, toy)
    target.parent.mkdir(parents=True, exist_ok=True)
    transfer.partial_path(target).write_bytes(toy.repos[REPO][WEIGHTS].content[:100_000])
    get_model(REPO, options=replace(FAST, min_free_bytes=1 << 30))


def test_disk_full_in_mid_download(
    toy: FakeHub, places: Places, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]
) -> None:
    """Fault B47: the numbers are told, nothing is listed, and it goes on after room was made."""
    real = disk.write_all

    def full_after_half(out: object, chunk: bytes) -> None:
        if os.fstat(out.fileno()).st_size + len(chunk) > HALF:  # type: ignore[attr-defined]
            room = max(0, HALF - os.fstat(out.fileno()).st_size)  # type: ignore[attr-defined]
            real(out, chunk[:room])  # type: ignore[arg-type]
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(out, chunk)  # type: ignore[arg-type]

    with monkeypatch.context() as full:
        full.setattr(transfer, "write_all", full_after_half)
        with pytest.raises(DiskFull, match=r"disk is full: .* of 120\.\d kB of model\.safe"):
            get_model(REPO, options=FAST)
    assert list_models() == []
    assert [path.stat().st_size for path in partials(places)] == [HALF]
    toy.seen.clear()
    entry = get_model(REPO, options=FAST)
    assert [seen.range for seen in toy.fetches(WEIGHTS)] == [f"bytes={HALF}-"]
    assert (entry.path / WEIGHTS).read_bytes() == files[WEIGHTS]


def test_failure_of_one_file_stops_the_others(hub: FakeHub, places: Places, files: dict[str, bytes]) -> None:
    gate = threading.Event()
    hub.add(REPO, dict(files))
    hub.faults[WEIGHTS] = [Fault(gate=gate)]
    hub.faults["config.json"] = [Fault(status=404)]
    threading.Timer(0.5, gate.set).start()
    with pytest.raises(DownloadError, match="404"):
        get_model(REPO, options=FAST)
    gate.set()
    assert not blob(places, hub).exists()


def test_concurrent_downloads_share_the_work(toy: FakeHub, places: Places, files: dict[str, bytes]) -> None:
    """Four at once, with drops: each byte is fetched once and all get the same model."""
    toy.faults[WEIGHTS] = [Fault(drop_after=1000), Fault(drop_after=1000), Fault(drop_after=HALF)]
    entries, errors = [], []

    def work() -> None:
        try:
            entries.append(get_model(REPO, options=replace(FAST, attempts=6)))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert entries == [entries[0]] * 4
    assert (entries[0].path / WEIGHTS).read_bytes() == files[WEIGHTS]
    assert [seen.range for seen in toy.fetches(WEIGHTS)] == [
        None, "bytes=1000-", "bytes=2000-", f"bytes={HALF + 2000}-",
    ]  # fmt: skip


_CHILD = """
import sys
from stoker.library import get_model
from stoker.library.transfer import TransferOptions
get_model(sys.argv[1], options=TransferOptions(min_free_bytes=0))
"""


def test_kill_9_in_mid_download_then_retry(toy: FakeHub, places: Places, files: dict[str, bytes]) -> None:
    gate = threading.Event()
    toy.faults[WEIGHTS] = [Fault(gate=gate)]
    half = len(files[WEIGHTS]) // 2
    child = subprocess.Popen([sys.executable, "-c", _CHILD, REPO])
    try:
        deadline = time.monotonic() + 20
        while [path.stat().st_size for path in partials(places)] != [half]:
            assert time.monotonic() < deadline, "the child never got half of the file"
            time.sleep(0.02)
    finally:
        child.kill()
        child.wait()
        gate.set()
    assert list_models() == []
    toy.seen.clear()
    entry = get_model(REPO, options=FAST)  # the dead owner's lock is no obstacle
    assert [seen.range for seen in toy.fetches(WEIGHTS)] == [f"bytes={half}-"]
    assert (entry.path / WEIGHTS).read_bytes() == files[WEIGHTS]


def _size(path: Path) -> int:
    """0 for a file that has just got its final name."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_stuck_owner_is_overtaken_and_does_no_harm(
    toy: FakeHub, places: Places, files: dict[str, bytes], recorder: Recorder
) -> None:
    """An owner with no sign of work for the stale time loses its lock; once awake, its bytes go nowhere."""
    gate = threading.Event()
    toy.faults[WEIGHTS] = [Fault(gate=gate)]
    slow: list[object] = []

    def stuck() -> None:
        try:
            slow.append(get_model(REPO, options=FAST))
        except DownloadError as error:
            slow.append(error)

    thread = threading.Thread(target=stuck)
    thread.start()
    deadline = time.monotonic() + 10
    while not any(_size(path) > HALF - 2000 for path in partials(places)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    entry = get_model(REPO, progress=recorder, options=replace(FAST, stale_lock_s=0.2))
    assert any("is being downloaded by process" in note for note in recorder.notes)
    assert (entry.path / WEIGHTS).read_bytes() == files[WEIGHTS]
    gate.set()
    thread.join()
    assert slow == [entry]
    assert (entry.path / WEIGHTS).read_bytes() == files[WEIGHTS]
    assert not partials(places)


def test_gguf_repository_gives_the_chosen_quantization(hub: FakeHub, places: Places, tmp_path: Path) -> None:
    q4 = write_gguf(tmp_path / "a.gguf", file_type=15).read_bytes()
    q8 = write_gguf(tmp_path / "b.gguf", file_type=7, rows=8).read_bytes()
    hub.add(
        "org/toy-GGUF",
        {
            "toy-Q2_K.gguf": q4 + b"2",
            "toy-Q4_K_M.gguf": q4,
            "toy-Q8_0.gguf": q8,
            "mmproj-toy.gguf": b"x",
            "README.md": b"",
        },
    )
    entry = get_model("org/toy-GGUF:q8_0", options=FAST)
    assert (entry.id, entry.quant_bits, entry.path.name) == ("org/toy-GGUF:Q8_0", 8, "toy-Q8_0.gguf")
    assert get_model("org/toy-GGUF:toy-Q2_K.gguf", options=FAST).id == "org/toy-GGUF:Q2_K"
    assert get_model("org/toy-GGUF", options=FAST).id == "org/toy-GGUF:Q4_K_M"
    assert [model.id.partition(":")[2] for model in list_models()] == ["Q2_K", "Q4_K_M", "Q8_0"]
    with pytest.raises(ModelNotFound, match=r"no Q3_K_M; choose one of Q2_K \(.*\), Q4_K_M \(.*\), Q8_0"):
        get_model("org/toy-GGUF:Q3_K_M", options=FAST)


def test_offline_falls_back_to_the_copy_at_hand(
    toy: FakeHub, places: Places, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = get_model(REPO, options=FAST)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert get_model(REPO, progress=recorder, options=FAST) == entry
    assert "the copy on this machine is used" in recorder.notes[-1]
    with pytest.raises(HubUnreachable):
        get_model("org/other", options=FAST)


def test_unreachable_hub_is_said_plainly(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubUnreachable, match=r"cannot reach http://127\.0\.0\.1:9"):
        get_model(REPO, options=FAST)


def test_part_of_an_installed_name_refreshes_it(toy: FakeHub, places: Places) -> None:
    entry = get_model(REPO, options=FAST)
    assert get_model("TOY", options=FAST) == entry


def test_progress_counts_up_to_the_total(toy: FakeHub, places: Places, recorder: Recorder) -> None:
    toy.faults[WEIGHTS] = [Fault(drop_after=HALF)]
    get_model(REPO, progress=recorder, options=FAST)
    first, last = recorder.states[0], recorder.states[-1]
    assert (first.title, first.received_bytes, first.files_done) == (REPO, 0, 0)
    assert last.received_bytes == last.total_bytes == first.total_bytes
    assert last.files_done == len(last.files) == 4
    assert any("trying again" in note for note in recorder.notes)


def test_fetch_all_of_nothing_asks_for_no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "free_bytes", lambda _folder: 0)
    fetch_all(None, [], None, FAST)  # type: ignore[arg-type]


def test_nothing_is_left_unusable(toy: FakeHub, places: Places) -> None:
    get_model(REPO, options=FAST)
    assert scan().unusable == ()
