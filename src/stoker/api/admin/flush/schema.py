"""Documentation model of the flush route."""

from __future__ import annotations

from stoker.api.documented import Documented


class FlushAnswer(Documented):
    """With status 200 everything is on disk; with 503 something could not be written."""

    durable: bool
    flushedSnapshots: int  # made durable by this call
    missingSnapshots: int  # in neither memory nor folder any more
    pendingSnapshots: int
    pendingSpills: int
    pendingSpillBytes: int
    droppedSpills: int
    failedSpills: int
    elapsedMs: int
    entries: int
    longest_durable_prefix_tokens: int
