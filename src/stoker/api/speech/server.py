"""The application of a server that only transcribes: no chat model, no engine, no cache."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

from fastapi import APIRouter, FastAPI
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import Response

from stoker import __version__
from stoker.api.application import assemble
from stoker.api.documented import Documented
from stoker.api.drain import Drain
from stoker.api.errors import json_response
from stoker.api.metrics import Metrics
from stoker.api.openapi import read_docs
from stoker.api.speech.front import SpeechFront
from stoker.api.speech.routes import transcription_router
from stoker.api.speech.schema import TranscriptionBlock
from stoker.api.speech.sessions import sessions_router
from stoker.api.speech.unload import transcription_object, unload_router
from stoker.api.state import ApiSettings

ENDPOINTS = (
    "POST /v1/audio/transcriptions",
    "POST /v1/audio/translations",
    "POST /v1/audio/sessions",
    "POST /admin/transcription/unload",
    "GET /v1/models",
    "GET /health",
    "GET /stats",
    "GET /metrics",
)


class SpeechHealth(Documented):
    status: Literal["ok"]
    transcription: TranscriptionBlock


class SpeechStatsAnswer(Documented):
    model: str
    transcription: TranscriptionBlock
    uptime_s: float


class SpeechServerCard(Documented):
    name: Literal["stoker"]
    version: str
    model: str
    mode: Literal["transcription"]
    endpoints: list[str]


class SpeechCapabilities(Documented):
    transcription: bool
    translation: bool
    chat_completions: bool


class SpeechModelRow(Documented):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    transcription: bool
    resident: bool
    capabilities: SpeechCapabilities


class SpeechModelList(Documented):
    object: Literal["list"]
    data: list[SpeechModelRow]


@dataclass(frozen=True, slots=True)
class SpeechState:
    """Everything the routes work with."""

    model_id: str
    speech: SpeechFront
    settings: ApiSettings = field(default_factory=ApiSettings)
    metrics: Metrics = field(default_factory=Metrics)
    started_at: float = field(default_factory=time.time)  # unix seconds

    @property
    def drain(self) -> Drain:
        return self.speech.drain


def create_speech_app(state: SpeechState) -> FastAPI:
    routers = (
        transcription_router(state),
        sessions_router(state),
        unload_router(state),
        _system_router(state),
    )
    return assemble(state, routers, ())


def _system_router(state: SpeechState) -> APIRouter:
    router = APIRouter(tags=["System"])

    @router.get("/health", summary="Whether the server is up", **read_docs(SpeechHealth, "It is."))
    async def health() -> Response:
        return json_response({"status": "ok", "transcription": transcription_object(state.speech)})

    @router.get("/stats", summary="Figures of this process", **read_docs(SpeechStatsAnswer, "All figures."))
    async def stats() -> Response:
        return json_response(
            {
                "model": state.model_id,
                "transcription": transcription_object(state.speech),
                "uptime_s": round(time.time() - state.started_at, 3),
            }
        )

    @router.get("/v1", summary="What this server is", **read_docs(SpeechServerCard, "Name and endpoints."))
    async def describe() -> Response:
        return json_response(
            {
                "name": "stoker",
                "version": __version__,
                "model": state.model_id,
                "mode": "transcription",
                "endpoints": list(ENDPOINTS),
                "compat": "mlx-bun/0.5.0",
            }
        )

    @router.get("/v1/models", summary="The model", **read_docs(SpeechModelList, "One row."))
    async def list_models() -> Response:
        return json_response({"object": "list", "data": [_row(state)]})

    @router.get(
        "/v1/models/{model_id:path}",
        summary="One model",
        **read_docs(SpeechModelList, "The same list, empty for another id.", further=(404,)),
    )
    async def find_model(request: Request) -> Response:
        rows = [_row(state)] if request.path_params["model_id"] == state.model_id else []
        return json_response({**(rows[0] if rows else {}), "object": "list", "data": rows})

    @router.get("/metrics", summary="For Prometheus", response_class=Response)
    async def metrics() -> Response:
        return Response(state.metrics.render(), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})

    return router


def _row(state: SpeechState) -> dict[str, Any]:
    return {
        "id": state.model_id,
        "object": "model",
        "created": int(state.started_at),
        "owned_by": "stoker",
        "transcription": True,
        "resident": state.speech.service.stats().residency.resident,
        "capabilities": {"transcription": True, "translation": True, "chat_completions": False},
    }
