"""POST /admin/cache/flush, and the disk cache in /stats."""

from __future__ import annotations

from tests.api.fronts import Front, make_front

from stoker.api import ApiSettings
from stoker.cache.disk.stats import DiskStats, FlushReport

STATS = DiskStats(
    dir="/kv",
    entries=2,
    bytes=100,
    max_bytes=0,
    restores=1,
    spills=2,
    restore_ms_last=3,
    demotions=4,
    pending_snapshots=5,
    pending_spills=6,
    pending_spill_bytes=7,
    dropped_spills=8,
    failed_spills=9,
    longest_durable_prefix_tokens=10,
    folder_bytes=11,
    skipped_files=12,
    writing=True,
)


async def test_without_a_disk_cache_there_is_nothing_to_do(front: Front) -> None:
    response = await front.post("/admin/cache/flush", None)
    assert response.status_code == 200
    assert response.json() == {
        "durable": True,
        "flushedSnapshots": 0,
        "missingSnapshots": 0,
        "pendingSnapshots": 0,
        "pendingSpills": 0,
        "pendingSpillBytes": 0,
        "droppedSpills": 0,
        "failedSpills": 0,
        "elapsedMs": 0,
        "entries": 0,
        "longest_durable_prefix_tokens": 0,
    }


async def test_what_could_not_be_written_is_503_with_the_same_body() -> None:
    front = make_front(flush_report=FlushReport(False, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10))
    async with front.client() as client:
        response = await client.post("/admin/cache/flush")  # no body at all
    assert response.status_code == 503
    assert list(response.json().values()) == [False, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


async def test_a_key_is_asked_for() -> None:
    front = make_front(settings=ApiSettings(api_key="k"))
    assert (await front.post("/admin/cache/flush", None)).status_code == 401


async def test_stats_have_the_disk_cache_when_there_is_one() -> None:
    front = make_front(disk=STATS)
    assert (await front.get("/stats")).json()["ssd_cache"] == STATS.as_json()


async def test_metrics_have_it_too(front: Front) -> None:
    text = (await make_front(disk=STATS).get("/metrics")).text
    assert "stoker_ssd_cache_failed_spills_total 9.0" in text
    assert "stoker_ssd_cache_longest_durable_prefix_tokens 10.0" in text
    assert "stoker_ssd_cache_writing 1.0" in text
    assert "ssd_cache" not in (await front.get("/metrics")).text
