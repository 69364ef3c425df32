"""What the disk tier reports. Plain values, counters cumulative since the start."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DiskStats:
    dir: str
    entries: int  # files this server can use
    bytes: int  # of those
    max_bytes: int  # cap on everything stoker wrote into the folder; 0 = none
    restores: int  # prefixes read back
    spills: int  # prefixes written
    restore_ms_last: int
    demotions: int  # entries that left memory after being unused for a while
    pending_snapshots: int  # scheduled, not yet confirmed on disk
    pending_spills: int  # of those, waiting for the writer or in its hands
    pending_spill_bytes: int
    dropped_spills: int  # generation checkpoints superseded before they were written
    failed_spills: int
    longest_durable_prefix_tokens: int
    folder_bytes: int  # of all files stoker wrote there, other models' included
    skipped_files: int  # damaged, foreign or of a future version
    writing: bool  # False while the disk is full or refuses

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class FlushReport:
    durable: bool
    flushed_snapshots: int  # made durable by this call
    missing_snapshots: int  # scheduled once, and now neither in memory nor on disk
    pending_snapshots: int
    pending_spills: int
    pending_spill_bytes: int
    dropped_spills: int
    failed_spills: int
    elapsed_ms: int
    entries: int
    longest_durable_prefix_tokens: int


NOTHING_TO_FLUSH = FlushReport(True, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
