"""The figures counted without prometheus_client read as its own do."""

from __future__ import annotations

import re

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from stoker.api.token_metrics import TokenMetrics

BOUNDS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 10)
GAPS = (0.0, 0.002, 0.0021, 0.05, 0.6, 10, 11)


def lines(registry: CollectorRegistry) -> list[str]:
    """Without the moment at which a series was made."""
    text = generate_latest(registry).decode()
    return sorted(re.sub(r"_created .*", "_created", line) for line in text.splitlines())


def test_they_are_written_like_the_librarys() -> None:
    theirs, ours = CollectorRegistry(), CollectorRegistry()
    tokens = Counter("stoker_completion_tokens", "Tokens generated for clients.", registry=theirs)
    gaps = Histogram(
        "stoker_inter_token_seconds", "Between two tokens of one choice.", buckets=BOUNDS, registry=theirs
    )
    metrics = TokenMetrics()
    ours.register(metrics)
    assert lines(ours) == lines(theirs)
    tokens.inc(7)
    metrics.num_tokens += 7
    for gap in GAPS:
        gaps.observe(gap)
        metrics.observe_gap(gap)
    assert lines(ours) == lines(theirs)
