"""POST /admin/cache/flush: waits until every prefix computed so far is on disk."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from stoker.api.admin.flush.schema import FlushAnswer
from stoker.api.errors import json_response
from stoker.api.openapi import error_docs
from stoker.api.state import ApiState
from stoker.cache.disk.stats import FlushReport

TIMEOUT_S = 600.0  # a disk this slow will not get better


def flush_router(state: ApiState) -> APIRouter:
    router = APIRouter(tags=["Admin"])

    @router.post(
        "/admin/cache/flush",
        summary="Write every kept prefix to disk",
        responses={
            200: {"model": FlushAnswer, "description": "All of it is on disk."},
            **error_docs(401, 403),
            503: {"model": FlushAnswer, "description": "Something could not be written."},
        },
    )
    async def flush() -> Response:
        report = await run_in_threadpool(state.engine.flush_cache, TIMEOUT_S)
        return json_response(flush_object(report), 200 if report.durable else 503)

    return router


def flush_object(report: FlushReport) -> dict[str, Any]:
    return {
        "durable": report.durable,
        "flushedSnapshots": report.flushed_snapshots,
        "missingSnapshots": report.missing_snapshots,
        "pendingSnapshots": report.pending_snapshots,
        "pendingSpills": report.pending_spills,
        "pendingSpillBytes": report.pending_spill_bytes,
        "droppedSpills": report.dropped_spills,
        "failedSpills": report.failed_spills,
        "elapsedMs": report.elapsed_ms,
        "entries": report.entries,
        "longest_durable_prefix_tokens": report.longest_durable_prefix_tokens,
    }
