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
from stoker.api.openai.chat import schema
from stoker.api.openai.chat.parse import parse_chat
from stoker.api.openai.chat.reply import completion_object
from stoker.api.openai.chat.stream import stream_chunks
from stoker.api.openai.structured import work_bytes
from stoker.api.openapi import generation_docs
from stoker.api.state import ApiState


def chat_router(state: ApiState) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/v1/chat/completions",
        summary="Reply to a conversation",
        tags=["OpenAI"],
        **generation_docs(schema.ChatCompletionRequest, schema.ChatCompletion, schema.ChatCompletionChunk),
    )
    async def create_chat_completion(request: Request) -> Response:
        body = await read_body(request)
        chat = await off_loop(
            state.workers, lambda: parse_chat(state, body, request.headers), work_bytes(body)
        )
        generation = Generation(state, chat.order)
        model, created = state.text.id, int(time.time())
        if chat.stream.stream:
            chunks = stream_chunks(generation, chat.stream, model=model, created=created)
            return answer_stream(state, generation, chunks, chat.warnings)
        make_body = partial(completion_object, chat.order, model=model, created=created)
        return await answer_whole(request, generation, make_body, chat.warnings)

    return router
