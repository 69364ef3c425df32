"""Prometheus figures of the disk cache, read from its stats at scrape time; none without one."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stoker.api.engine_port import EngineLike

# Fields of DiskStats with their help.
_GAUGES = {
    "entries": "Files of the disk cache that this server can use.",
    "bytes": "Bytes of those.",
    "folder_bytes": "Bytes of everything stoker wrote into the folder.",
    "pending_snapshots": "Prefixes scheduled and not yet confirmed on disk.",
    "pending_spills": "Prefixes in the write queue.",
    "pending_spill_bytes": "Bytes of those.",
    "longest_durable_prefix_tokens": "Tokens of the longest prefix on disk.",
    "writing": "0 while the disk is full or refuses.",
}
_COUNTERS = {
    "restores": "Prefixes read back from disk.",
    "spills": "Prefixes written to disk.",
    "demotions": "Blocks that left memory after being unused for a while.",
    "dropped_spills": "Generation checkpoints superseded before they were written.",
    "failed_spills": "Writes that failed.",
    "skipped_files": "Files found damaged, foreign or of a future version.",
}


class DiskCollector(Collector):
    def __init__(self, engine: EngineLike) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        stats = self._engine.disk_stats()
        if stats is None:
            return
        for field, text in _GAUGES.items():
            yield GaugeMetricFamily(f"stoker_ssd_cache_{field}", text, float(getattr(stats, field)))
        for field, text in _COUNTERS.items():
            yield CounterMetricFamily(f"stoker_ssd_cache_{field}", text, float(getattr(stats, field)))
