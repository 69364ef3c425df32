"""The engine with a disk tier: what one run computed, the next one reads, and nothing changes for it."""

from __future__ import annotations

import errno
import os
import threading
import time

import pytest
import torch
from tests.cli.tiny import make_tiny_model
from tests.engine.test_engine import GREEDY, GatedModel, collect, prompt, reference_greedy, request

from stoker.cache.disk import DiskConfig, Namespace
from stoker.cache.disk import folder as folders
from stoker.cache.disk import segment as segments
from stoker.cache.disk import store as store_module
from stoker.cache.disk import writer as writer_module
from stoker.core import FinishEvent, PromptEvent, SamplingParams, TokenEvent
from stoker.engine import Engine, EngineConfig
from stoker.kv.paged import PagedKV
from stoker.kv.paged_native import NativePagedKV
from stoker.models import load_model
from stoker.models.formats import open_checkpoint
from stoker.models.native_decoder import NativeDecoder, accelerate

LONG = prompt(3, 150)


@pytest.fixture(scope="module", params=["torch", "native"])
def model(request, tmp_path_factory):
    folder = make_tiny_model(tmp_path_factory.mktemp("tiny"))
    decoder = load_model(open_checkpoint(folder), max_context=512)
    if request.param == "torch":
        return decoder
    model = accelerate(decoder)
    if model is decoder:
        pytest.skip("no native kernels were built")
    return model


@pytest.fixture
def engines(model, tmp_path):
    """Starts engines on one folder; a closed one has flushed."""
    started = []

    def start(target=model, *, num_blocks=96, name="a", cache_bytes=10**9, checkpoint_tokens=0, **disk):
        layout = NativePagedKV if isinstance(model, NativeDecoder) else PagedKV
        config = DiskConfig(tmp_path / "cache", lambda: Namespace({"model": name}), **disk)
        engine = Engine(
            target,
            layout(model.facts.layers, num_blocks=num_blocks),
            EngineConfig(
                prefix_cache_bytes=cache_bytes,
                prefill_chunk=64,
                disk=config,
                checkpoint_tokens=checkpoint_tokens,
            ),
        )
        engine.start()
        assert engine._disk is None or engine._disk.wait_until_ready(30)
        started.append(engine)
        return engine

    yield start
    for engine in started:
        engine.close()


def ask(engine, ids, **options):
    """Tokens, and how many of the prompt came from a cache."""
    tokens, events = collect(engine.submit(request(ids, **options)))
    (told,) = [event for event in events if isinstance(event, PromptEvent)]
    return tokens[0], told.cached_tokens


def eventually(condition, timeout_s=20):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.005)


def test_a_restart_finds_what_was_computed_and_says_the_same(model, engines):
    first = engines()
    expected, cached = ask(first, LONG)
    assert cached == 0
    assert expected == reference_greedy(model, LONG, 12)
    first.close(flush_timeout_s=30)
    second = engines()
    turn = (*LONG, *expected, *prompt(4, 7))
    answer, cached = ask(second, turn)
    assert cached == len(LONG) + 11  # the last token was never computed
    assert answer == reference_greedy(model, turn, 12)
    assert second.disk_stats().restores == 1
    assert ask(second, turn) == (answer, len(turn) - 1)  # from memory now
    assert second.disk_stats().restores == 1
    assert ask(second, LONG) == (expected, len(LONG) - 1)


def test_logits_after_a_restore_equal_those_without_a_cache(engines):
    """Branches of one history, each compared with a run that has no cache."""
    sampling = SamplingParams(temperature=0, logprobs=5)

    def logprobs(engine, ids):
        _, events = collect(engine.submit(request(ids, sampling=sampling, max_tokens=4)))
        return [
            [(event.token_id, event.logprob), *((t.token_id, t.logprob) for t in event.top)]
            for event in events
            if isinstance(event, TokenEvent)
        ]

    branches = [LONG[:cut] + prompt(40 + cut, 30) for cut in (31, 32, 33, 64, 100, 149)]
    plain = engines(cache_bytes=0)
    expected = [logprobs(plain, ids) for ids in branches]
    first = engines()
    for ids in (LONG, *branches[::2]):
        ask(first, ids)
    first.close(flush_timeout_s=30)
    second = engines()
    for ids, wanted in zip(branches, expected, strict=True):
        for got_step, wanted_step in zip(logprobs(second, ids), wanted, strict=True):
            assert [token for token, _ in got_step] == [token for token, _ in wanted_step]
            assert [p for _, p in got_step] == pytest.approx([p for _, p in wanted_step], abs=1e-5)
    assert second.disk_stats().restores >= 4


def test_a_beginning_in_memory_does_not_hide_what_disk_has_behind_it(model, engines):
    """After a restart one conversation is back in memory; another one parts from it inside a file."""
    opening = prompt(1, 70)
    pair = [opening + prompt(40 + number, 50) for number in range(2)]
    first = engines()
    expected = [ask(first, ids) for ids in pair]
    assert [cached for _, cached in expected] == [0, 70]
    first.close(flush_timeout_s=30)
    second = engines()
    for ids, (answer, _) in zip(pair, expected, strict=True):
        assert ask(second, ids) == (answer, len(ids) - 1)
    assert second.disk_stats().restores == 2


def test_another_namespace_does_not_see_it(model, engines):
    first = engines()
    ask(first, LONG)
    first.close(flush_timeout_s=30)
    assert ask(engines(name="b"), LONG) == (reference_greedy(model, LONG, 12), 0)
    assert ask(engines(), LONG)[1] == len(LONG) - 1


def test_b40_what_an_adapter_computes_stays_in_memory(engines):
    """Not published to disk, not written when it leaves memory, not looked for there."""
    engine = engines()
    assert ask(engine, LONG, namespace="adapter")[1] == 0
    engine.run_exclusive(engine._prefixes.index.clear).result(30)
    assert engine.flush_cache(30).durable
    stats = engine.disk_stats()
    assert (stats.entries, stats.pending_snapshots, stats.folder_bytes) == (0, 0, 0)
    ask(engine, LONG)
    engine.flush_cache(30)
    engine.run_exclusive(engine._prefixes.index.clear).result(30)
    assert ask(engine, LONG, namespace="adapter")[1] == 0
    assert engine.disk_stats().restores == 0
    assert ask(engine, LONG)[1] == len(LONG) - 1
    assert engine.disk_stats().restores == 1


def test_flush_counts_what_it_made_durable(engines):
    engine = engines(write_behind=False)
    report = engine.flush_cache(30)
    assert (report.durable, report.flushed_snapshots, report.entries) == (True, 0, 0)
    ask(engine, LONG)
    ask(engine, prompt(9, 50))
    report = engine.flush_cache(30)
    assert (report.durable, report.flushed_snapshots, report.entries) == (True, 2, 2)
    assert report.longest_durable_prefix_tokens == len(LONG) + 11
    assert (report.missing_snapshots, report.pending_snapshots, report.pending_spills) == (0, 0, 0)
    again = engine.flush_cache(30)  # costs no second write
    assert (again.durable, again.flushed_snapshots, again.entries) == (True, 0, 2)


def test_write_behind_needs_no_flush(engines):
    engine = engines()
    ask(engine, LONG)
    eventually(lambda: engine.disk_stats().pending_spills == 0)
    assert engine.disk_stats().longest_durable_prefix_tokens == len(LONG) + 11
    eventually(lambda: engine.stats().kv_bytes == engine.stats().prefix_bytes)  # nothing else is held


def test_what_leaves_memory_is_written_first(model, engines):
    """Without write-behind, eviction is what writes."""
    engine = engines(write_behind=False, num_blocks=12)
    asked = [prompt(60 + number, 90) for number in range(8)]
    expected = [reference_greedy(model, ids, 4) for ids in asked]
    for ids, tokens in zip(asked, expected, strict=True):
        assert ask(engine, ids, max_tokens=4)[0] == tokens
    eventually(lambda: engine.disk_stats().pending_spills == 0)
    assert engine.disk_stats().spills >= 4  # the pool holds no more than three or four of them
    assert engine.disk_stats().pending_snapshots == 0
    for ids, tokens in zip(asked, expected, strict=True):
        again, cached = ask(engine, ids, max_tokens=4)
        assert again == tokens
        assert cached >= 64, "from memory or from disk"
    assert engine.disk_stats().restores >= 4


def test_idle_prefixes_leave_memory_and_come_back_from_disk(engines):
    engine = engines(demote_idle_s=0.2)
    answer, _ = ask(engine, LONG)
    eventually(lambda: engine.stats().prefix_entries == 0)
    eventually(lambda: engine.stats().kv_bytes == 0)
    assert engine.disk_stats().demotions >= 5
    assert ask(engine, LONG) == (answer, len(LONG) - 1)


@pytest.mark.parametrize("prefetch", [True, False])
def test_requests_for_the_same_bytes_share_one_read(model, engines, prefetch):
    first = engines()
    expected, _ = ask(first, LONG)
    first.close(flush_timeout_s=30)
    gated = GatedModel(model)
    engine = engines(gated, prefetch=prefetch)
    handles = [engine.submit(request(LONG)) for _ in range(6)]
    for handle in handles:
        tokens, events = collect(handle)
        assert tokens[0] == expected
        assert events[0].cached_tokens == len(LONG) - 1
    assert engine.disk_stats().restores == 1


class SlowStore:
    """Holds every read until it is let go."""

    def __init__(self, monkeypatch):
        self.gate, self.entered = threading.Event(), threading.Event()
        self.cancelled = []
        self.came_too_late = False
        read = store_module.Store.read

        def slow(store, pieces, first, ids, cancelled):
            self.entered.set()
            self.came_too_late = not self.gate.wait(30)
            self.cancelled.append(cancelled())
            return read(store, pieces, first, ids, cancelled)

        monkeypatch.setattr(store_module.Store, "read", slow)


def test_a_cancelled_request_drops_its_interest(engines, monkeypatch):
    first = engines()
    expected, _ = ask(first, LONG)
    first.close(flush_timeout_s=30)
    slow = SlowStore(monkeypatch)
    engine = engines()
    handle = engine.submit(request(LONG))
    assert slow.entered.wait(30)
    assert engine.stats().pending_rows == 1
    assert ask(engine, prompt(5, 20))[1] == 0
    assert not slow.came_too_late  # others are not held up by the read
    handle.cancel()
    assert collect(handle)[1] == [FinishEvent(0, "cancelled")]
    slow.gate.set()
    eventually(lambda: slow.cancelled == [True])
    eventually(lambda: engine.stats().kv_bytes == engine.stats().prefix_bytes)
    assert ask(engine, LONG) == (expected, len(LONG) - 1)


def test_a_second_waiter_keeps_the_read_alive(engines, monkeypatch):
    first = engines()
    expected, _ = ask(first, LONG)
    first.close(flush_timeout_s=30)
    slow = SlowStore(monkeypatch)
    engine = engines()
    leaver, stayer = (engine.submit(request(LONG)) for _ in range(2))
    assert slow.entered.wait(30)
    leaver.cancel()
    collect(leaver)
    slow.gate.set()
    tokens, events = collect(stayer)
    assert (tokens[0], events[0].cached_tokens) == (expected, len(LONG) - 1)
    assert engine.disk_stats().restores == 1


def test_closing_waits_for_a_read_or_cancels_it(engines, monkeypatch):
    first = engines()
    ask(first, LONG)
    first.close(flush_timeout_s=30)
    slow = SlowStore(monkeypatch)
    engine = engines()
    handle = engine.submit(request(LONG))
    assert slow.entered.wait(30)
    engine.close(timeout_s=0.05)
    assert collect(handle)[1] == [FinishEvent(0, "cancelled")]
    slow.gate.set()


def test_choices_wait_for_one_read(engines):
    first = engines()
    expected, _ = ask(first, LONG)
    first.close(flush_timeout_s=30)
    tokens, events = collect(engines().submit(request(LONG, n=3)))
    assert tokens == {0: expected, 1: expected, 2: expected}
    assert events[0].cached_tokens == len(LONG) - 1


def test_a_damaged_file_costs_only_time(model, engines, tmp_path):
    first = engines()
    expected, _ = ask(first, LONG)
    first.close(flush_timeout_s=30)
    for file in (tmp_path / "cache").glob("*/*.safetensors"):
        if segments.parse_name(file.name).start:
            continue
        content = bytearray(file.read_bytes())
        content[-5] ^= 1
        file.write_bytes(content)
    engine = engines(verify=True)
    assert ask(engine, LONG) == (expected, 0)
    assert engine.disk_stats().skipped_files == 1
    engine.close(flush_timeout_s=30)
    assert ask(engines(verify=True), LONG) == (expected, len(LONG) - 1)  # it was written anew


# Trouble with the disk.


class Disk:
    """A file system that can be full."""

    def __init__(self, monkeypatch):
        self.full = False
        write = segments.write

        def guarded(out, *arguments, **options):
            if self.full:
                out.write(b"x")
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(out, *arguments, **options)

        monkeypatch.setattr(segments, "write", guarded)


def test_a_full_disk_leaves_memory_only_and_is_tried_again(engines, monkeypatch, caplog, tmp_path):
    """B47."""
    disk = Disk(monkeypatch)
    engine = engines()
    disk.full = True
    answer, _ = ask(engine, LONG)
    eventually(lambda: engine.disk_stats().failed_spills >= 1)
    ask(engine, prompt(8, 40))
    eventually(lambda: engine.disk_stats().failed_spills >= 2)
    assert caplog.text.count("the disk is full") == 1  # told once, not for each prefix
    assert not engine.disk_stats().writing
    assert ask(engine, LONG) == (answer, len(LONG) - 1)
    assert [path.name for path in (tmp_path / "cache").glob("*/*")] == [folders.FACTS_NAME]
    report = engine.flush_cache(30)
    assert not report.durable
    assert (report.flushed_snapshots, report.missing_snapshots, report.entries) == (0, 0, 0)
    assert report.pending_snapshots >= 2
    assert report.failed_spills > 0
    disk.full = False
    report = engine.flush_cache(30)  # what failed is still in memory
    assert report.durable
    assert (report.pending_snapshots, report.missing_snapshots) == (0, 0)
    assert report.longest_durable_prefix_tokens == len(LONG) + 11
    assert engine.disk_stats().writing


def test_a_full_disk_is_tried_again_by_itself(engines, monkeypatch):
    disk = Disk(monkeypatch)
    monkeypatch.setattr(writer_module, "RETRY_AFTER_S", 0.2)
    monkeypatch.setattr("stoker.cache.disk.tier.UPKEEP_EVERY_S", 0.05)
    engine = engines()
    disk.full = True
    ask(engine, LONG)
    eventually(lambda: engine.disk_stats().failed_spills >= 1)
    disk.full = False
    eventually(lambda: engine.disk_stats().longest_durable_prefix_tokens == len(LONG) + 11)
    eventually(lambda: engine.disk_stats().pending_snapshots == 0)


def test_what_is_lost_is_missing_for_good(engines, monkeypatch):
    """A prefix that failed to reach the disk and then left memory cannot be flushed any more."""
    disk = Disk(monkeypatch)
    engine = engines(num_blocks=10)
    disk.full = True
    ask(engine, LONG)
    for number in range(3):
        ask(engine, prompt(30 + number, 200))
    eventually(lambda: engine.disk_stats().pending_spills == 0)
    disk.full = False
    for _ in range(2):
        report = engine.flush_cache(30)
        assert not report.durable
        assert report.missing_snapshots >= 1
        assert report.pending_snapshots == report.missing_snapshots


def test_pending_writes_give_way_to_running_rows(model, engines, monkeypatch):
    """The disk hangs; generations go on in the memory that snapshots would hold."""
    gate = threading.Event()
    write = segments.write

    def stuck(*arguments, **options):
        assert gate.wait(60)
        return write(*arguments, **options)

    monkeypatch.setattr(segments, "write", stuck)
    engine = engines(num_blocks=24)
    asked = [prompt(90 + number, 100) for number in range(10)]
    for ids in asked:
        assert ask(engine, ids)[0] == reference_greedy(model, ids, 12)
    gate.set()
    eventually(lambda: engine.disk_stats().pending_spills == 0)
    eventually(lambda: engine.stats().kv_bytes == engine.stats().prefix_bytes)


def test_a_folder_that_cannot_be_made_leaves_the_engine_without_a_tier(model, tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    layout = NativePagedKV if isinstance(model, NativeDecoder) else PagedKV
    config = DiskConfig(tmp_path / "file" / "cache", lambda: Namespace({}))
    engine = Engine(
        model,
        layout(model.facts.layers, num_blocks=32),
        EngineConfig(prefix_cache_bytes=10**9, disk=config),
    )
    engine.start()
    try:
        assert ask(engine, LONG)[0] == reference_greedy(model, LONG, 12)
        eventually(lambda: "cannot be used" in caplog.text)
        assert not engine.flush_cache(0.2).durable
    finally:
        engine.close()


def test_conversations_on_two_engines_and_one_folder_keep_apart(model, engines):
    """B38 and two processes: shared beginnings, secrets of their own, evictions, restores and restarts."""
    if isinstance(model, NativeDecoder):
        pytest.skip("one native model serves one engine at a time")
    opening = prompt(1, 70)
    secrets = [opening + prompt(300 + number, 40) for number in range(6)]
    expected = [reference_greedy(model, ids, 4) for ids in secrets]
    pair = [engines(num_blocks=14), engines(num_blocks=14)]
    chooser = torch.Generator().manual_seed(5)
    for round_number in range(3):
        order = torch.randint(0, 6, (6,), generator=chooser).tolist()
        handles = [
            (number, pair[position % 2].submit(request(secrets[number], max_tokens=4, sampling=GREEDY)))
            for position, number in enumerate(order)
        ]
        for number, handle in handles:
            assert collect(handle)[0][0] == expected[number]
        for engine in pair:
            assert engine.flush_cache(30).failed_spills == 0
            engine._disk._store.refresh()
        if round_number == 0:
            pair[0].close(flush_timeout_s=30)
            pair[0] = engines(num_blocks=14)
    assert sum(engine.disk_stats().restores for engine in pair) > 0


def test_the_folder_holds_each_stretch_once(engines, tmp_path):
    engine = engines()
    opening = prompt(1, 96)
    for number in range(5):
        ask(engine, opening + prompt(500 + number, 20), max_tokens=2)
    engine.flush_cache(30)
    held = sum(segments.parse_name(path.name).count for path in (tmp_path / "cache").glob("*/*.safetensors"))
    assert held <= 96 + 5 * (20 + 1 + 32)
    assert os.listdir(tmp_path) == ["cache"]
