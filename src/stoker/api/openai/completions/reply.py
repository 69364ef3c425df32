"""A finished text completion as one JSON object."""

from __future__ import annotations

from typing import Any

from stoker.api.generation import Reply, Usage
from stoker.api.openai.completions.parse import TextRequest
from stoker.api.openai.logprobs import legacy_block
from stoker.api.openai.usage import usage_block


def completion_object(
    request: TextRequest, replies: list[Reply], usage: Usage, *, model: str, created: int
) -> dict[str, Any]:
    return {
        "id": request.order.id,
        "object": "text_completion",
        "created": created,
        "model": model,
        "choices": [_choice(index, reply, request) for index, reply in enumerate(replies)],
        "usage": usage_block(usage),
    }


def _choice(index: int, reply: Reply, request: TextRequest) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": index, "text": request.echoes[index] + reply.text}
    if request.order.want_logprobs:
        choice["logprobs"] = legacy_block(
            reply.logprobs, request.order.sampling.logprobs, len(request.echoes[index])
        )
    choice["finish_reason"] = reply.finish_reason
    return choice
