"""Random trees of histories by way of the disk: prefixes that left memory, engines that were closed and
opened anew on the same folder, engines that ended before all was written. Logits are those of a run
without any cache.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engine.cached_turns import CONTEXT, TURN, Talk, Turn, groups, make_kv, model

from stoker.cache.disk import DiskConfig, Namespace
from stoker.cache.disk.restore import MIN_GAIN_TOKENS
from stoker.engine import Engine, EngineConfig
from stoker.kv.blocks import BLOCK_SIZE

__all__ = ["model"]

NUM_BLOCKS = 120
# What happens before a group of turns: nothing, memory keeps only the beginning of the newest, it forgets
# all, the engine is closed properly, or it ends with its queue unwritten.
Between = Literal["", "trim", "forget", "restart", "crash"]
BETWEEN = st.sampled_from(["", "trim", "forget", "restart", "crash"])

NUM_KEPT = 2  # blocks that stay in memory when it is trimmed: others share the room then


@dataclass(frozen=True)
class Options:
    max_blocks: int  # of memory for prefixes; with few of them eviction writes and restores evict
    verify: bool
    write_behind: bool
    prefetch: bool
    max_bytes: int  # of the folder; 0 for all


OPTIONS = st.builds(
    Options,
    max_blocks=st.sampled_from([5, 16, 200]),
    verify=st.booleans(),
    write_behind=st.booleans(),
    prefetch=st.booleans(),
    max_bytes=st.sampled_from([0, 0, 300_000]),  # a dozen blocks
)


class Machine:
    """One engine after the other on one folder."""

    def __init__(self, model: Any, folder: Path, options: Options) -> None:
        self._model, self._folder, self._options = model, folder, options
        self.engine = self._start()

    def _start(self) -> Engine:
        kv = make_kv(self._model, NUM_BLOCKS)
        disk = DiskConfig(
            self._folder,
            lambda: Namespace({"model": "tiny"}),
            verify=self._options.verify,
            write_behind=self._options.write_behind,
            prefetch=self._options.prefetch,
            max_bytes=self._options.max_bytes,
        )
        config = EngineConfig(
            prefill_chunk=48,
            busy_chunk=8,
            max_rows=3,
            prefix_cache_bytes=self._options.max_blocks * kv.bytes_per_block,
            disk=disk,
        )
        engine = Engine(self._model, kv, config)
        engine.start()
        assert engine._disk is not None
        assert engine._disk.wait_until_ready(30)
        return engine

    @property
    def room(self) -> int:
        """Tokens of one history that memory and disk surely hold."""
        return 0 if self._options.max_bytes else self._options.max_blocks * BLOCK_SIZE

    def do(self, between: Between) -> None:
        if between in ("trim", "forget"):
            assert self.engine.flush_cache(30).durable
            num_held = self.engine.stats().prefix_entries
            num_kept = (
                min(num_held, NUM_KEPT) if between == "trim" else 0
            )  # of the newest: beginnings leave last
            index = self.engine._prefixes.index
            self.engine.run_exclusive(lambda: index.reclaim(num_held - num_kept)).result(30)
            assert self.engine.stats().prefix_entries == num_kept
        elif between:
            self.close(flush_timeout_s=30 if between == "restart" else 0)
            self.engine = self._start()

    def close(self, flush_timeout_s: float) -> None:
        stats = self.engine.disk_stats()
        assert stats is not None
        assert (stats.failed_spills, stats.skipped_files) == (0, 0)
        self.engine.close(flush_timeout_s=flush_timeout_s)


@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    turns=st.lists(TURN, min_size=5, max_size=12),
    between=st.lists(BETWEEN, min_size=12, max_size=12),
    options=OPTIONS,
)
def test_logits_after_restores_and_restarts_are_those_without_a_cache(
    model: Any, turns: list[Turn], between: list[Between], options: Options
) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a write may still be ending
        machine = Machine(model, Path(folder), options)
        try:
            talk = Talk(model)
            for what, group in zip(between, groups(turns), strict=False):
                machine.do(what)
                if what in ("trim", "forget", "restart") and talk.newest:
                    check_that_it_is_reused(talk, machine, what)
                talk.go_on(machine.engine, group)
            report = machine.engine.flush_cache(30)
            assert (report.durable, report.missing_snapshots) == (True, 0)
            # Behind the message that gives the written blocks back.
            stats = machine.engine.run_exclusive(machine.engine.stats).result(30)
            assert stats.kv_bytes == stats.prefix_bytes  # nothing is held for a disk that has it all
        finally:
            machine.close(flush_timeout_s=0)


def check_that_it_is_reused(talk: Talk, machine: Machine, what: Between) -> None:
    """All is on disk: the newest conversation goes on from there, to the token."""
    num_known = len(talk.newest) - 1  # the last token of a reply was never computed
    namespace = talk.newest_namespace
    num_others = NUM_KEPT * BLOCK_SIZE if what == "trim" else 0
    cached = talk.go_on(machine.engine, [Turn(1, 1.0, (1,), 1, None, namespace, False)])
    if namespace and what != "trim":  # an adapter's stays in memory
        assert cached == 0
    elif not namespace and MIN_GAIN_TOKENS <= num_known <= machine.room - num_others:
        assert cached >= min(num_known, CONTEXT - 21) - (MIN_GAIN_TOKENS - 1) * (what == "trim")
