"""The routes: create (whole or streamed), read, list the input, cancel, delete."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.api.as_chat import reply_headers
from stoker.api.body import off_loop, read_body
from stoker.api.disconnect import unless_disconnected
from stoker.api.errors import json_response
from stoker.api.generation import Generation
from stoker.api.openai.responses import schema
from stoker.api.openai.responses.listing import list_items
from stoker.api.openai.responses.parse import parse_response
from stoker.api.openai.responses.run import ResponseRun
from stoker.api.openai.responses.saved import load_response, response_not_found
from stoker.api.openai.responses.stream import ResponseStream
from stoker.api.openai.structured import work_bytes
from stoker.api.openapi import generation_docs, read_docs
from stoker.api.parts import build_parts
from stoker.api.sse import EventStream
from stoker.api.state import ApiState
from stoker.errors import InvalidRequest, Unavailable

_WITH_ID = {
    "parameters": [{"name": "response_id", "in": "path", "required": True, "schema": {"type": "string"}}]
}


def responses_router(state: ApiState) -> APIRouter:
    router = APIRouter(tags=["OpenAI"])
    running: dict[str, ResponseRun] = {}

    @router.post(
        "/v1/responses",
        summary="Reply to items, in the Responses form",
        **generation_docs(
            schema.ResponseRequest,
            schema.ResponseObject,
            schema.ResponseEvent,
            error=schema.ResponsesError,
            done=None,
            further=(404,),
        ),
    )
    async def create_response(request: Request) -> Response:
        body = await read_body(request)
        asked = await off_loop(
            state.workers, lambda: parse_response(state, body, request.headers), work_bytes(body)
        )
        run = ResponseRun(state, asked, Generation(state, asked.order))
        running[run.id] = run
        if not asked.stream:
            try:
                return json_response(
                    await _whole(request, run), headers=reply_headers("x-request-id", asked.warnings)
                )
            finally:
                run.generation.cancel()
                del running[run.id]

        def close() -> None:
            run.generation.cancel()
            running.pop(run.id, None)

        stream = ResponseStream(run)
        return EventStream(
            stream.frames(),
            error_frame=stream.error_frame,
            on_close=close,
            heartbeat_s=state.settings.heartbeat_s,
            headers=reply_headers("x-request-id", asked.warnings),
        )

    @router.get(
        "/v1/responses/{response_id}",
        summary="A stored response, or one under way",
        **read_docs(schema.ResponseObject, "The response.", error=schema.ResponsesError, further=(400, 404)),
        openapi_extra=_WITH_ID,
    )
    async def get_response(request: Request) -> Response:
        response_id = request.path_params["response_id"]
        if request.query_params.get("stream", "").lower() == "true":
            # A client that asked for events would read the whole response as a stream without any.
            raise InvalidRequest("stream is not supported here: read it without, or poll it", param="stream")
        run = running.get(response_id)
        return json_response(run.snapshot() if run else load_response(state, response_id).response)

    @router.get(
        "/v1/responses/{response_id}/input_items",
        summary="What a response was a reply to",
        **read_docs(schema.ItemList, "A page of items.", error=schema.ResponsesError, further=(400, 404)),
        openapi_extra=_WITH_ID,
    )
    async def get_input_items(request: Request) -> Response:
        response_id = request.path_params["response_id"]
        run = running.get(response_id)
        items = run.request.items if run else load_response(state, response_id).input
        return json_response(list_items(items, request.query_params))

    @router.post(
        "/v1/responses/{response_id}/cancel",
        summary="End a response under way",
        **read_docs(schema.ResponseObject, "The response.", error=schema.ResponsesError, further=(404,)),
        openapi_extra=_WITH_ID,
    )
    async def cancel_response(request: Request) -> Response:
        """One that has ended already is returned as it is."""
        response_id = request.path_params["response_id"]
        run = running.get(response_id)
        if run is None:
            return json_response(load_response(state, response_id).response)
        run.cancel()
        return json_response({**run.snapshot(), "status": "cancelled"})

    @router.delete(
        "/v1/responses/{response_id}",
        summary="Forget a response",
        **read_docs(schema.Deleted, "It is gone.", error=schema.ResponsesError, further=(404,)),
        openapi_extra=_WITH_ID,
    )
    async def delete_response(request: Request) -> Response:
        response_id = request.path_params["response_id"]
        run = running.get(response_id)
        if run is not None:
            run.cancel(forget=True)
        elif not state.responses.delete(response_id):
            raise response_not_found(response_id)
        return json_response({"id": response_id, "object": "response", "deleted": True})

    return router


async def _whole(request: Request, run: ResponseRun) -> dict[str, Any]:
    """Raises RequestCancelled when the client goes away first."""
    try:
        await unless_disconnected(request.receive, build_parts(run.generation, run.built))
    except Unavailable:
        if not run.cancelled:
            raise
        return run.ended_by_cancel()
    return run.ended()
