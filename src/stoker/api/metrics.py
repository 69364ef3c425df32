"""Prometheus figures of one application, in a registry of its own.

What the engine counts is read from its stats at scrape time; only what the front alone sees is
counted here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stoker.api.disk_metrics import DiskCollector
from stoker.api.engine_port import EngineLike, StatsLike
from stoker.api.side_metrics import EmbedCollector, SpeechCollector
from stoker.api.token_metrics import TokenMetrics

if TYPE_CHECKING:
    from stoker.api.speech.front import SpeechFront
    from stoker.embed.service import EmbedService

_WAIT_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "stoker_http_requests",
            "HTTP requests by route and status (499: the client went away).",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self.prompt_tokens = Counter(
            "stoker_prompt_tokens", "Prompt tokens of requests that began to answer.", registry=self.registry
        )
        self.cached_tokens = Counter(
            "stoker_cached_prompt_tokens", "Of those, served from a cache.", registry=self.registry
        )
        self.tokens = TokenMetrics()
        self.registry.register(self.tokens)
        self.prompt_wait_s = Histogram(
            "stoker_prompt_wait_seconds",
            "From submission to the end of prefill: time in the queue plus the prompt itself.",
            buckets=_WAIT_BUCKETS_S,
            registry=self.registry,
        )
        self.first_token_s = Histogram(
            "stoker_time_to_first_token_seconds",
            "From submission to the first token.",
            buckets=_WAIT_BUCKETS_S,
            registry=self.registry,
        )

    def watch_engine(self, engine: EngineLike) -> None:
        """Adds the engine's own figures to the registry. Once per engine."""
        self.registry.register(_EngineCollector(engine))
        self.registry.register(DiskCollector(engine))

    def watch_speech(self, speech: SpeechFront) -> None:
        self.registry.register(SpeechCollector(speech))

    def watch_embed(self, embed: EmbedService) -> None:
        self.registry.register(EmbedCollector(embed))

    def render(self) -> bytes:
        """The text exposition format, version 0.0.4."""
        return generate_latest(self.registry)


class _EngineCollector(Collector):
    def __init__(self, engine: EngineLike) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        stats = self._engine.stats()
        yield GaugeMetricFamily("stoker_rows_active", "Rows in the running batch.", stats.active_rows)
        yield GaugeMetricFamily("stoker_rows_queued", "Rows waiting for a place.", stats.pending_rows)
        yield GaugeMetricFamily(
            "stoker_kv_bytes", "Bytes of keys and values held by rows and the prompt cache.", stats.kv_bytes
        )
        yield GaugeMetricFamily(
            "stoker_kv_capacity_bytes", "Bytes set aside for keys and values.", stats.kv_capacity_bytes
        )
        yield GaugeMetricFamily(
            "stoker_kv_projected_bytes", "Bytes the running rows may come to need.", stats.kv_projected_bytes
        )
        yield from _prompt_cache(stats)
        yield CounterMetricFamily(
            "stoker_rows_preempted", "Rows that gave up their memory for a while.", stats.preemptions
        )
        yield CounterMetricFamily("stoker_rows_submitted", "Rows handed to the engine.", stats.submitted_rows)
        yield CounterMetricFamily("stoker_engine_steps", "Forward passes of the engine.", stats.steps)
        yield CounterMetricFamily(
            "stoker_engine_prompt_tokens", "Prompt tokens computed.", stats.prompt_tokens
        )
        yield CounterMetricFamily(
            "stoker_engine_generated_tokens",
            "Tokens sampled, cancelled rows included.",
            stats.generated_tokens,
        )


def _prompt_cache(stats: StatsLike) -> Iterator[Metric]:
    for name, help, value in (
        ("entries", "Blocks of computed prefixes kept.", stats.prefix_entries),
        ("bytes", "Bytes they take.", stats.prefix_bytes),
        ("max_bytes", "Bytes they may take.", stats.prefix_max_bytes),
    ):
        yield GaugeMetricFamily(f"stoker_prompt_cache_{name}", help, value)
    for name, help, value in (
        ("hits", "Requests that found some of their prompt.", stats.prefix_hits),
        ("misses", "Requests that found none of it.", stats.prefix_misses),
        ("scans", "Ordinary searches for a prefix.", stats.prefix_scans),
        ("session_hits", "Requests served from their session's checkpoint.", stats.session_hits),
        ("session_misses", "Requests with a session that needed the search.", stats.session_misses),
    ):
        yield CounterMetricFamily(f"stoker_prompt_cache_{name}", help, value)
