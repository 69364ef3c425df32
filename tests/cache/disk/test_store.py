"""Histories written to a folder and found again: extent, sharing, damage, other processes, the cap."""

from __future__ import annotations

import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from tests.cache.disk.histories import SIZE, namespace, open_store, restore, save

from stoker.cache.disk import folder as folders
from stoker.cache.disk import segment as segments
from stoker.cache.disk import store as store_module
from stoker.cache.disk.index import SegmentIndex

HISTORY = list(range(1, 4 * SIZE + 3))


@pytest.fixture(autouse=True)
def _small_files(monkeypatch):
    monkeypatch.setattr(store_module, "SEGMENT_BLOCKS", 2)


def files(store):
    return sorted(store.folder.glob("*.safetensors"))


def test_what_was_written_is_found_by_another_process_exact_to_the_token(tmp_path):
    store, blocks = open_store(tmp_path)
    assert save(store, blocks, HISTORY) == 3
    other, into = open_store(tmp_path)
    for tokens, found in [
        (HISTORY, 18),
        ([*HISTORY, 99, 98], 18),
        (HISTORY[:17], 17),
        (HISTORY[:9], 9),
        ([*HISTORY[:13], 77, 77, 77, 77], 13),
        ([*HISTORY[:6], 77, 77], 6),
        ([77, *HISTORY], 0),
        ([], 0),
    ]:
        assert restore(other, into, tokens) == found, tokens
    assert restore(other, into, HISTORY, first=3) == 18  # memory had three blocks already


def test_a_file_is_an_ordinary_safetensors_file(tmp_path):
    store, blocks = open_store(tmp_path)
    save(store, blocks, HISTORY[:8])
    (path,) = files(store)
    with safe_open(path, "np") as opened:
        assert set(opened.keys()) == {"layers.0.keys", "layers.0.values"}
        assert opened.get_tensor("layers.0.values").shape == (2, SIZE)
        assert opened.metadata()["tokens"] == " ".join(map(str, HISTORY[:8]))


def test_what_is_there_is_not_written_again(tmp_path):
    store, blocks = open_store(tmp_path)
    save(store, blocks, HISTORY)
    assert save(store, blocks, HISTORY) == 0
    assert save(store, blocks, HISTORY[:7]) == 0
    assert save(store, blocks, [*HISTORY[:8], 50, 51, 52]) == 1  # only what differs
    other, into = open_store(tmp_path)
    assert save(other, into, HISTORY) == 0  # after a restart neither
    assert restore(other, into, [*HISTORY[:8], 50, 51, 52]) == 11


def test_a_conversation_that_grows_adds_files_and_stays_whole(tmp_path):
    store, blocks = open_store(tmp_path)
    for length in range(3, 40, 5):
        save(store, blocks, list(range(1, length)))
    other, into = open_store(tmp_path)
    assert restore(other, into, list(range(1, 60))) == 37


def common(a, b):
    return next(
        (at for at, pair in enumerate(zip(a, b, strict=False)) if len(set(pair)) > 1), min(len(a), len(b))
    )


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_tree_of_histories_is_found_as_a_list_of_them_would(tmp_path_factory, data):
    histories = data.draw(
        st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=22), min_size=1, max_size=8)
    )
    store, blocks = open_store(tmp_path_factory.mktemp("cache"))
    for tokens in histories:
        save(store, blocks, tokens)
    reader, into = open_store(store.root)
    for asked in [*histories, data.draw(st.lists(st.integers(0, 1), max_size=24))]:
        longest = max(common(known, asked) for known in histories)
        hoped = reader.index.reach(asked)
        found = restore(reader, into, asked)
        assert found - SIZE < hoped <= len(asked)  # less than a block more may be found
        # Within the block where histories part, what remains of it may be computed again.
        assert longest - longest % SIZE <= found <= longest
        assert reader.index.probe(asked) <= longest
        assert reader.index.reach(asked) == found  # all that could say more has been read


# Damage: never trusted, never fatal, reported once, and replaced by the next write.


def flip(at):
    def damage(path):
        content = bytearray(path.read_bytes())
        content[at] ^= 0x40
        path.write_bytes(content)

    return damage


def future(path):
    path.rename(path.with_name(path.name.replace(".v1.", ".v2.")))


def directory(path):
    path.unlink()
    path.mkdir()


def other_name(path):
    """The right keys of another place."""
    segment = segments.parse_name(path.name)
    moved = segments.Segment(segment.last, segment.first, segment.last, segment.start, segment.count)
    path.rename(path.with_name(moved.name))


def foreign(path):
    """A sound file of another namespace under a name of ours."""
    root = path.parent.parent / "elsewhere"
    store, blocks = open_store(root, "b")
    save(store, blocks, HISTORY[:8])
    path.write_bytes(files(store)[0].read_bytes())


HARM = {
    "empty": lambda path: path.write_bytes(b""),
    "cut in the header": lambda path: os.truncate(path, 40),
    "cut in the tensors": lambda path: os.truncate(path, path.stat().st_size - 1),
    "grown": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "length flipped": flip(3),
    "header flipped": flip(60),
    "not ours": lambda path: path.write_bytes(b"hello" * 100),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "future": future,
    "directory": directory,
    "foreign": foreign,
    "forbidden": lambda path: path.chmod(0),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("before_the_scan", [True, False])
def test_a_bad_file_is_never_used_and_never_fatal(tmp_path, harm, before_the_scan, caplog):
    if harm == "forbidden" and os.geteuid() == 0:
        pytest.skip("root reads everything")
    writer, blocks = open_store(tmp_path)
    save(writer, blocks, HISTORY)
    first = next(path for path in files(writer) if segments.parse_name(path.name).start == 0)
    if before_the_scan:
        HARM[harm](first)
        store, into = open_store(tmp_path)
    else:
        store, into = open_store(tmp_path)
        HARM[harm](first)
    assert restore(store, into, HISTORY) == 0  # the beginning is missing, so the rest is of no use
    assert restore(store, into, HISTORY) == 0
    vanished = harm == "gone" or (harm == "future" and not before_the_scan)
    assert caplog.text.count("is not used") == (not vanished)
    if harm not in ("directory", "forbidden"):
        assert save(store, into, HISTORY) >= 1
        assert restore(store, into, HISTORY) == 18


@pytest.mark.parametrize("verify", [True, False])
def test_flipped_tensors_are_found_out_when_asked_to_verify(tmp_path, verify):
    store, blocks = open_store(tmp_path)
    save(store, blocks, HISTORY[:8])
    flip(-1)(files(store)[0])
    other, _ = open_store(tmp_path, verify=verify)
    pieces = other.find(HISTORY[:8])
    assert other.read(pieces, 0, [1, 2], lambda: False) == (0 if verify else 8)
    assert other.num_skipped == verify


def test_a_bad_file_in_the_middle_leaves_what_comes_before_it(tmp_path):
    store, blocks = open_store(tmp_path, verify=True)
    save(store, blocks, HISTORY)
    middle = next(path for path in files(store) if segments.parse_name(path.name).start == 8)
    flip(-1)(middle)
    assert restore(store, blocks, HISTORY) == 8


def test_another_model_keeps_its_own_files(tmp_path):
    store, blocks = open_store(tmp_path, "a")
    save(store, blocks, HISTORY)
    other, into = open_store(tmp_path, "b")
    assert restore(other, into, HISTORY) == 0
    save(other, into, HISTORY)
    assert restore(*open_store(tmp_path, "a"), HISTORY) == 18
    assert store.folder != other.folder


def test_a_cancelled_read_stops(tmp_path):
    store, blocks = open_store(tmp_path)
    save(store, blocks, HISTORY)
    calls = []

    def cancelled():
        calls.append(1)
        return len(calls) > 2

    assert store.read(store.find(HISTORY), 0, list(range(50, 55)), cancelled) == 8


# Several processes, temporary files, the cap.


def test_two_stores_on_one_folder_share_what_they_write(tmp_path):
    first, blocks = open_store(tmp_path)
    second, others = open_store(tmp_path)
    save(first, blocks, HISTORY)
    assert restore(second, others, HISTORY) == 0
    second.refresh()
    assert restore(second, others, HISTORY) == 18
    # Both at once: the file is there by the time the slower one comes to write it.
    third, more = open_store(tmp_path)
    third.index = SegmentIndex(namespace().root, SIZE)
    before = [path.stat().st_ino for path in files(first)]
    save(third, more, HISTORY)
    assert [path.stat().st_ino for path in files(first)] == before
    assert restore(third, more, HISTORY) == 18


def test_files_that_another_process_removed_are_written_again(tmp_path):
    store, blocks = open_store(tmp_path)
    save(store, blocks, HISTORY)
    for path in files(store):
        path.unlink()
    assert save(store, blocks, HISTORY) == 3
    assert restore(*open_store(tmp_path), HISTORY) == 18


def test_leftovers_of_a_dead_writer_go_and_those_of_a_live_one_stay(tmp_path):
    store, _ = open_store(tmp_path)
    dead = store.folder / f"{folders.TEMPORARY}999999999-aa"
    dead.write_bytes(b"half")
    old = store.folder / f"{folders.TEMPORARY}{os.getpid()}-bb"
    old.write_bytes(b"half")
    os.utime(old, (1, 1))
    foreign_file = store.folder / "notes.txt"
    foreign_file.write_text("mine")
    with folders.writing(store.folder, "x") as out:
        out.write(b"1")
        alive = next(
            path for path in store.folder.iterdir() if path.name.startswith(".") and path not in (dead, old)
        )
        os.utime(alive, (1, 1))
        store.remove_orphans()
        assert alive.exists()
    assert not dead.exists()
    assert not old.exists()
    assert foreign_file.exists()


def test_a_write_that_fails_leaves_no_file(tmp_path, monkeypatch):
    """B47."""
    store, blocks = open_store(tmp_path)

    def full(out, *arguments, **options):
        out.write(b"some")
        raise store_module.no_space(tmp_path, 100, 1)

    with monkeypatch.context() as patch:
        patch.setattr(segments, "write", full)
        with pytest.raises(OSError, match="no space"):
            save(store, blocks, HISTORY)
    assert [path.name for path in store.folder.iterdir()] == [folders.FACTS_NAME]
    assert save(store, blocks, HISTORY) == 3


def test_free_space_is_checked_first(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "FREE_RESERVE_BYTES", 2**62)
    store, blocks = open_store(tmp_path)
    with pytest.raises(OSError, match="no space left"):
        save(store, blocks, HISTORY)


def test_the_cap_holds_for_everything_we_wrote_whoever_it_was_for(tmp_path):
    """B42: another model's files count and go first when they are older; others' files are left alone."""
    store, blocks = open_store(tmp_path, "a")
    for number in range(6):
        save(store, blocks, [number * 10 + at for at in range(SIZE)])
    sizes = [path.stat().st_size for path in files(store)]
    for path in files(store):
        os.utime(path, (1000, 1000))
    notes = tmp_path / "notes.txt"
    notes.write_bytes(b"x" * 10_000)
    cap = 3 * max(sizes)
    other, into = open_store(tmp_path, "b", max_bytes=cap)
    assert sum(file.num_bytes for file in folders.files_of(tmp_path)) <= cap
    for number in range(40):
        save(other, into, [number * 10 + at for at in range(SIZE)])
        assert sum(file.num_bytes for file in folders.files_of(tmp_path)) <= cap
    assert files(store) == []
    assert notes.exists()
    assert len(other.index) == len(files(other)) >= 1
    assert other.folder_bytes <= cap


def test_the_cap_takes_the_ends_of_histories_before_their_beginnings(tmp_path):
    store, blocks = open_store(tmp_path)
    save(store, blocks, HISTORY)
    total = sum(path.stat().st_size for path in files(store))
    other, into = open_store(tmp_path, max_bytes=total - 1)
    assert restore(other, into, HISTORY) == 16


def test_a_used_history_outlives_an_unused_one(tmp_path):
    store, blocks = open_store(tmp_path)
    unused, used = [random.Random(1).randrange(99) for _ in range(8)], HISTORY[:8]
    save(store, blocks, used)
    save(store, blocks, unused)
    for path in files(store):
        os.utime(path, (1000, 1000))
    restore(store, blocks, used)
    size = files(store)[0].stat().st_size
    other, into = open_store(tmp_path, max_bytes=size + 10)
    assert (restore(other, into, used), restore(other, into, unused)) == (8, 0)
