"""The cache changes nothing but the time: logits over random trees of histories equal those computed
without it, whatever was shared, branched, trimmed, evicted or computed beside it. In memory;
test_disk_exactness.py goes by way of the disk.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engine.cached_turns import TURN, Talk, Turn, groups, make_kv, model

from stoker.engine import Engine, EngineConfig

__all__ = ["model"]


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    turns=st.lists(TURN, min_size=4, max_size=14),
    max_blocks=st.sampled_from([3, 12, 200]),
    retention=st.sampled_from(["lru", "cost-size"]),
)
def test_logits_are_those_without_a_cache(
    model: Any, turns: list[Turn], max_blocks: int, retention: Any
) -> None:
    kv = make_kv(model, 120)
    config = EngineConfig(
        prefill_chunk=48,
        busy_chunk=8,
        max_rows=3,
        prefix_cache_bytes=max_blocks * kv.bytes_per_block,
        cache_retention=retention,
    )
    engine = Engine(model, kv, config)
    engine.start()
    try:
        talk = Talk(model)
        for group in groups(turns):
            talk.go_on(engine, group)
        assert engine.stats().prefix_entries <= max_blocks
        assert engine.stats().kv_bytes == engine.stats().prefix_bytes
    finally:
        engine.close()
