"""POST /admin/cache/session/close: the cache forgets a session label."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from stoker.api.body import parse_object, read_body
from stoker.api.documented import Documented
from stoker.api.errors import json_response
from stoker.api.fields import Fields
from stoker.api.openapi import error_docs
from stoker.api.state import ApiState


class SessionClose(Documented):
    session_id: str | None = Field(None, description="The label, as requests gave it.")


class SessionClosed(Documented):
    closed: bool = Field(description="Whether a label was given; one nobody used counts too.")


def session_close_router(state: ApiState) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/admin/cache/session/close",
        summary="Forget a session label",
        tags=["Cache"],
        responses={
            200: {"model": SessionClosed, "description": "Done. What the session stored stays."},
            **error_docs(400, 401, 403, 408, 413, 499, 503),
        },
        openapi_extra={
            "requestBody": {
                "required": False,
                "content": {"application/json": {"schema": SessionClose.model_json_schema()}},
            }
        },
    )
    async def close_session(request: Request) -> Response:
        body = await read_body(request)
        label = Fields(parse_object(body)).string("session_id") if body.strip() else None
        if not label:
            return json_response({"closed": False})
        state.engine.close_session(label)
        return json_response({"closed": True})

    return router
