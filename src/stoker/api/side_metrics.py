"""Prometheus figures of what is served beside the chat model: speech, embeddings and reranking.

Read from their own counters at scrape time; none for a part that is not served.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from stoker.api.speech.front import SpeechFront
    from stoker.embed.service import EmbedService


class SpeechCollector(Collector):
    def __init__(self, speech: SpeechFront) -> None:
        self._speech = speech

    def collect(self) -> Iterator[Metric]:
        stats = self._speech.service.stats()
        residency = stats.residency
        yield CounterMetricFamily(
            "stoker_transcriptions", "Takes that ended; a session counts once.", stats.requests
        )
        yield GaugeMetricFamily("stoker_transcriptions_active", "Takes that run or wait.", stats.active)
        yield GaugeMetricFamily("stoker_transcription_sessions", "Open sessions.", len(self._speech.sessions))
        yield GaugeMetricFamily(
            "stoker_speech_model_resident",
            "1 while the speech model's weights are in memory.",
            residency.resident,
        )
        yield CounterMetricFamily(
            "stoker_speech_model_loads", "Times its weights were loaded.", residency.loads
        )
        yield CounterMetricFamily(
            "stoker_speech_model_unloads", "Times its weights were released.", residency.unloads
        )


class EmbedCollector(Collector):
    def __init__(self, embed: EmbedService) -> None:
        self._embed = embed

    def collect(self) -> Iterator[Metric]:
        """One sample per model: `embedding` and `rerank`."""
        resident = GaugeMetricFamily(
            "stoker_encoder_resident", "1 once the model is loaded.", labels=["kind"]
        )
        weights = GaugeMetricFamily("stoker_encoder_bytes", "Bytes of its weights.", labels=["kind"])
        waiting = GaugeMetricFamily(
            "stoker_encoder_requests_waiting", "Requests with passes that have not begun.", labels=["kind"]
        )
        requests = CounterMetricFamily("stoker_encoder_requests", "Requests handed to it.", labels=["kind"])
        items = CounterMetricFamily(
            "stoker_encoder_items",
            "Texts, or pairs of query and document, that it computed for them.",
            labels=["kind"],
        )
        for kind, stats in self._embed.stats().items():
            resident.add_metric([kind], stats.id is not None)
            weights.add_metric([kind], stats.weights_bytes)
            waiting.add_metric([kind], stats.waiting)
            requests.add_metric([kind], stats.requests)
            items.add_metric([kind], stats.items)
        yield from (resident, weights, waiting, requests, items)
