"""Figures that change with every token, counted by plain additions.

prometheus_client's own take locks and check labels, ten microseconds a token. These have one writer,
the event loop; a scrape may read them a token too early.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

_GAP_BUCKETS_S = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 10)


class TokenMetrics(Collector):
    """`stoker_completion_tokens` and `stoker_inter_token_seconds`."""

    def __init__(self) -> None:
        self.num_tokens = 0
        self._created = time.time()
        self._gap_counts = [0] * (len(_GAP_BUCKETS_S) + 1)  # by the bucket they fall into
        self._gap_sum_s = 0.0

    def observe_gap(self, seconds: float) -> None:
        """The time between two tokens of one choice."""
        self._gap_counts[bisect_left(_GAP_BUCKETS_S, seconds)] += 1
        self._gap_sum_s += seconds

    def collect(self) -> Iterator[Metric]:
        tokens = CounterMetricFamily("stoker_completion_tokens", "Tokens generated for clients.", labels=())
        tokens.add_metric((), self.num_tokens, created=self._created)
        yield tokens
        gaps = HistogramMetricFamily(
            "stoker_inter_token_seconds", "Between two tokens of one choice.", labels=()
        )
        bounds = map(floatToGoString, (*_GAP_BUCKETS_S, float("inf")))
        buckets = list(zip(bounds, accumulate(self._gap_counts), strict=True))
        gaps.add_metric((), buckets, self._gap_sum_s)
        gaps.add_sample("stoker_inter_token_seconds_created", {}, self._created)
        yield gaps
