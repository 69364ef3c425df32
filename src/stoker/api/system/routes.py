"""The routes of the server's own state."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.responses import Response

from stoker.api.errors import json_response
from stoker.api.openapi import error_docs, read_docs
from stoker.api.state import ApiState
from stoker.api.system import schema
from stoker.api.system.docs_page import PAGE
from stoker.api.system.fit import fit_object
from stoker.api.system.stats import stats_object

_HEALTHY = b'{"status": "ok"}'  # the contract gives these bytes, space included


def system_router(state: ApiState) -> APIRouter:
    router = APIRouter(tags=["System"])

    @router.get("/health", summary="Whether the server is up", **read_docs(schema.Health, "It is."))
    async def health() -> Response:
        return Response(_HEALTHY, media_type="application/json")

    @router.get("/stats", summary="Figures of this process", **read_docs(schema.Stats, "All figures."))
    async def stats() -> Response:
        return json_response(stats_object(state))

    @router.get(
        "/fit", summary="What fits this machine", **read_docs(schema.FitAnswer, "An estimate, not a limit.")
    )
    async def fit() -> Response:
        loop = asyncio.get_running_loop()
        return json_response(await loop.run_in_executor(state.workers, fit_object, state))

    @router.get(
        "/metrics",
        summary="The same for Prometheus",
        response_class=Response,
        responses={
            200: {
                "description": "Text exposition format.",
                "content": {"text/plain": {"schema": {"type": "string"}}},
            },
            **error_docs(401, 403, 503),
        },
    )
    async def metrics() -> Response:
        return Response(state.metrics.render(), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})

    @router.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        policy = (
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
        )
        return Response(PAGE, media_type="text/html", headers={"content-security-policy": policy})

    return router
