"""POST /admin/transcription/unload, and the block about transcription in other answers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from stoker.api.errors import json_response
from stoker.api.speech import schema
from stoker.api.speech.front import HasSpeech, Job, SpeechFront
from stoker.api.speech.routes import front_of


def unload_router(state: HasSpeech) -> APIRouter:
    router = APIRouter(tags=["Admin"])

    @router.post(
        "/admin/transcription/unload", summary="Release the speech model's memory", **schema.UNLOAD_DOCS
    )
    async def unload() -> Response:
        front = front_of(state)
        with Job(front) as job:
            unloaded = await job.run(front.service.residency.unload)
        return json_response({"unloaded": unloaded, **residency_object(front)})

    return router


def residency_object(front: SpeechFront) -> dict[str, Any]:
    stats = front.service.stats()
    residency = stats.residency
    return {
        "resident": residency.resident,
        "loads": residency.loads,
        "unloads": residency.unloads,
        "requests": stats.requests,
        "last_load_ms": round(residency.last_load_ms, 3),
        "idle_unload_sec": residency.idle_unload_s,
    }


def transcription_object(front: SpeechFront) -> dict[str, Any]:
    """For /health and /stats."""
    return {**residency_object(front), "sessions": len(front.sessions)}
