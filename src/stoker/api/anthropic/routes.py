"""The routes: reply to a conversation, whole or as a stream, and count its tokens.

`anthropic-version`, `anthropic-beta` and `?beta=true` are accepted and change nothing.
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.api.anthropic import schema
from stoker.api.anthropic.parse import MessageRequest, parse_message
from stoker.api.anthropic.reply import message_object
from stoker.api.anthropic.stream import HEARTBEAT, MessageStream
from stoker.api.as_chat import reply_headers
from stoker.api.body import off_loop, read_body
from stoker.api.errors import json_response
from stoker.api.generation import Generation
from stoker.api.openai.structured import work_bytes
from stoker.api.openapi import generation_docs
from stoker.api.parts import finish_parts
from stoker.api.sse import EventStream
from stoker.api.state import ApiState


def messages_router(state: ApiState) -> APIRouter:
    router = APIRouter(tags=["Anthropic"])

    async def parse(request: Request) -> MessageRequest:
        body = await read_body(request)
        return await off_loop(
            state.workers, lambda: parse_message(state, body, request.headers), work_bytes(body)
        )

    @router.post(
        "/v1/messages",
        summary="Reply to a conversation, in Anthropic's form",
        **generation_docs(
            schema.MessageRequest, schema.Message, schema.MessageEvent, error=schema.AnthropicError, done=None
        ),
    )
    async def create_message(request: Request) -> Response:
        message = await parse(request)
        generation = Generation(state, message.order)
        headers = reply_headers("request-id", message.warnings)
        if message.stream:
            stream = MessageStream(generation, model=state.text.id)
            return EventStream(
                stream.frames(),
                error_frame=stream.error_frame,
                on_close=generation.cancel,
                heartbeat_s=state.settings.heartbeat_s,
                headers=headers,
                keep_alive=HEARTBEAT,
            )
        built = await finish_parts(request, generation)
        return json_response(message_object(generation, built, model=state.text.id), headers=headers)

    @router.post(
        "/v1/messages/count_tokens",
        summary="The input tokens that the same request would report",
        **generation_docs(
            schema.MessageRequest, schema.TokenCount, None, error=schema.AnthropicError, done=None
        ),
    )
    async def count_tokens(request: Request) -> Response:
        message = await parse(request)
        return json_response(
            {"input_tokens": message.input_tokens}, headers=reply_headers("request-id", message.warnings)
        )

    return router
