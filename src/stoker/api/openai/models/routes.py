"""The routes of discovery."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker import __version__
from stoker.api.errors import json_response
from stoker.api.openai.models import schema
from stoker.api.openai.models.rows import ENDPOINTS, all_rows
from stoker.api.openapi import read_docs
from stoker.api.state import ApiState

_MODEL_ID = {
    "name": "model_id",
    "in": "path",
    "required": True,
    "description": "An id from the list; it may contain slashes.",
    "schema": {"type": "string"},
}


def models_router(state: ApiState) -> APIRouter:
    router = APIRouter(tags=["OpenAI"])

    @router.get("/v1", summary="What this server is", **read_docs(schema.ServerCard, "Name and endpoints."))
    async def describe_server() -> Response:
        return json_response(
            {
                "name": "stoker",
                "version": __version__,
                "model": state.text.id,
                "endpoints": list(ENDPOINTS),
                "compat": "mlx-bun/0.5.0",
            }
        )

    @router.get("/v1/models", summary="List models", **read_docs(schema.ModelList, "The served model first."))
    async def list_models() -> Response:
        rows = await asyncio.to_thread(all_rows, state)
        return json_response({"object": "list", "data": rows})

    @router.get(
        "/v1/models/{model_id:path}",
        summary="One model",
        **read_docs(
            schema.ModelList,
            "The same list with only that id, and the fields of its row; empty when there is none.",
            further=(404,),  # a line break in it matches no route
        ),
        openapi_extra={"parameters": [_MODEL_ID]},
    )
    async def find_model(request: Request) -> Response:
        model_id = request.path_params["model_id"]
        rows = [row for row in await asyncio.to_thread(all_rows, state) if row["id"] == model_id]
        # The row's own fields stand beside the list: OpenAI's SDK expects the bare model here.
        return json_response({**(rows[0] if rows else {}), "object": "list", "data": rows})

    return router
