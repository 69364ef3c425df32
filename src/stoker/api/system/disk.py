"""The part of GET /stats about the disk cache; left out when there is none."""

from __future__ import annotations

from typing import Any

from stoker.api.documented import Documented
from stoker.api.state import ApiState


class DiskCacheStats(Documented):
    dir: str
    entries: int
    bytes: int
    max_bytes: int
    restores: int
    spills: int
    restore_ms_last: int
    demotions: int
    pending_snapshots: int
    pending_spills: int
    pending_spill_bytes: int
    dropped_spills: int
    failed_spills: int
    longest_durable_prefix_tokens: int
    folder_bytes: int
    skipped_files: int
    writing: bool


def disk_object(state: ApiState) -> dict[str, Any]:
    stats = state.engine.disk_stats()
    return {} if stats is None else {"ssd_cache": stats.as_json()}
