"""A running generation as an HTTP answer, whole or streamed. Shared by both completion endpoints."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from stoker.api.disconnect import unless_disconnected
from stoker.api.errors import json_response
from stoker.api.generation import Generation, Reply, Usage, collect
from stoker.api.openai.chunks import error_frame
from stoker.api.sse import EventStream
from stoker.api.state import ApiState


def answer_stream(
    state: ApiState, generation: Generation, chunks: AsyncGenerator[bytes, None], warnings: Sequence[str]
) -> Response:
    return EventStream(
        chunks,
        error_frame=error_frame,
        on_close=generation.cancel,
        heartbeat_s=state.settings.heartbeat_s,
        headers=_headers(warnings),
    )


async def answer_whole(
    request: Request,
    generation: Generation,
    make_body: Callable[[list[Reply], Usage], dict[str, Any]],
    warnings: Sequence[str],
) -> Response:
    """Raises RequestCancelled when the client goes away first; the rows are free then."""
    try:
        replies = await unless_disconnected(request.receive, collect(generation))
    finally:
        generation.cancel()
    return json_response(make_body(replies, generation.usage), headers=_headers(warnings))


def _headers(warnings: Sequence[str]) -> dict[str, str]:
    return {"warning": ", ".join(warnings)} if warnings else {}
