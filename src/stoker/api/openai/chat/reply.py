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
    choice: dict[str, Any] = {"index": index, "message": {"role": "assistant", "content": reply.text}}
    if want_logprobs:
        choice["logprobs"] = content_block(reply.logprobs)
    choice["finish_reason"] = reply.finish_reason
    return choice
