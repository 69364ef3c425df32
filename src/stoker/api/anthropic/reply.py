"""A finished generation as a Message, and the pieces its stream shares with it."""

from __future__ import annotations

import json
from typing import Any

from stoker.api.generation import Generation
from stoker.api.parts import Part, PartBuilder

Json = dict[str, Any]


def message_object(generation: Generation, built: PartBuilder, *, model: str) -> Json:
    return {
        **message_head(generation.order.id, model),
        "content": [content_block(part) for part in built.parts] or [empty_text()],
        **ending(built),
        "usage": final_usage(generation),
    }


def message_head(id: str, model: str) -> Json:
    """Every field of a Message that does not depend on what was generated, the others empty."""
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
    }


def content_block(part: Part) -> Json:
    if part.kind == "reasoning":
        return {"type": "thinking", "thinking": part.text, "signature": ""}
    if part.kind == "text":
        return {"type": "text", "text": part.text, "citations": None}
    return {**tool_head(part), "input": _call_input(part.text)}


def empty_text() -> Json:
    return {"type": "text", "text": "", "citations": None}


def tool_head(part: Part) -> Json:
    return {
        "type": "tool_use",
        "id": "toolu_" + part.call_id.removeprefix("call_"),
        "name": part.name,
        "caller": {"type": "direct"},
        "input": {},
    }


def ending(built: PartBuilder) -> Json:
    """`stop_reason` and `stop_sequence`."""
    if built.finish_reason == "length":
        reason = "max_tokens"
    elif any(part.kind == "call" for part in built.parts):
        reason = "tool_use"
    elif built.stop_sequence is not None:
        reason = "stop_sequence"
    else:
        reason = "end_turn"
    return {"stop_reason": reason, "stop_sequence": built.stop_sequence}


def usage_block(input_tokens: int, output_tokens: int, cached_tokens: int, thinking_tokens: int) -> Json:
    """`input_tokens` is the whole prompt, what came from the cache included."""
    return {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached_tokens,
        "cache_creation": None,
        "output_tokens_details": {"thinking_tokens": thinking_tokens},
        "server_tool_use": None,
        "service_tier": "standard",
        "inference_geo": None,
    }


def final_usage(generation: Generation) -> Json:
    usage = generation.usage
    return usage_block(
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.cached_tokens,
        generation.num_reasoning_tokens(0),
    )


def _call_input(arguments: str) -> Json:
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"_raw": arguments}
