"""A finished chat generation as one JSON object."""

from __future__ import annotations

from typing import Any

from stoker.api.generation import Order, Reply, Usage
from stoker.api.openai.logprobs import content_block
from stoker.api.openai.usage import usage_block


def completion_object(
    order: Order, replies: list[Reply], usage: Usage, *, model: str, created: int
) -> dict[str, Any]:
    return {
        "id": order.id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [_choice(index, reply, order.want_logprobs) for index, reply in enumerate(replies)],
        "usage": usage_block(usage),
    }


def _choice(index: int, reply: Reply, want_logprobs: bool) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": index, "message": _message(reply)}
    if want_logprobs:
        choice["logprobs"] = content_block(reply.logprobs)
    choice["finish_reason"] = reply.finish_reason
    return choice


def _message(reply: Reply) -> dict[str, Any]:
    """`content` is null only where calls are all there is. Thinking goes by both of its names."""
    content = None if reply.tool_calls and not reply.text else reply.text
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if reply.reasoning:
        message |= {"reasoning": reply.reasoning, "reasoning_content": reply.reasoning}
    if reply.tool_calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.tool_calls
        ]
    return message
