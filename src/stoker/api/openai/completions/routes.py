"""The route: read, submit, answer whole or as a stream."""

from __future__ import annotations

import time
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.api.body import off_loop, read_body
from stoker.api.generation import Generation
from stoker.api.openai.answer import answer_stream, answer_whole
from stoker.api.openai.completions import schema
from stoker.api.openai.completions.parse import parse_text
from stoker.api.openai.completions.reply import completion_object
from stoker.api.openai.completions.stream import stream_chunks
from stoker.api.openai.structured import work_bytes
from stoker.api.openapi import generation_docs
from stoker.api.state import ApiState


def completions_router(state: ApiState) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/v1/completions",
        summary="Continue a text",
        tags=["OpenAI"],
        **generation_docs(schema.CompletionRequest, schema.Completion, schema.CompletionChunk),
    )
    async def create_completion(request: Request) -> Response:
        body = await read_body(request)
        text = await off_loop(
            state.workers, lambda: parse_text(state, body, request.headers), work_bytes(body)
        )
        generation = Generation(state, text.order)
        model, created = state.text.id, int(time.time())
        if text.stream.stream:
            chunks = stream_chunks(generation, text, model=model, created=created)
            return answer_stream(state, generation, chunks, text.warnings)
        make_body = partial(completion_object, text, model=model, created=created)
        return await answer_whole(request, generation, make_body, text.warnings)

    return router
