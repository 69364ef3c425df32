"""A chat generation as a stream of chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from stoker.api.generation import Generation, Update
from stoker.api.openai.chunks import ChunkWriter, write_stream
from stoker.api.openai.logprobs import content_block
from stoker.api.openai.sampling import StreamOptions
from stoker.api.sse import compact, json_string
from stoker.chat.calls import ToolCallDelta


def stream_chunks(
    generation: Generation, options: StreamOptions, *, model: str, created: int
) -> AsyncGenerator[bytes, None]:
    head = {
        "id": generation.order.id,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
    }
    writer = ChunkWriter(head, usage_chunk=options.usage_chunk)
    return write_stream(
        generation,
        writer,
        opening=_opening,
        delta=_delta_with_logprobs if generation.order.want_logprobs else _delta,
        ending=_ending,
    )


def _opening(index: int) -> str:
    delta = '{"role":"assistant","content":"","refusal":null}'
    return f'{{"index":{index},"delta":{delta},"logprobs":null,"finish_reason":null}}'


def _delta(update: Update) -> str:
    if update.reasoning or update.tool_calls:
        news = _news(update)
    else:  # nearly every chunk
        news = f'{{"content":{json_string(update.text)}}}'
    return f'{{"index":{update.index},"delta":{news},"logprobs":null,"finish_reason":null}}'


def _delta_with_logprobs(update: Update) -> str:
    logprobs = compact(content_block(update.logprobs))
    return f'{{"index":{update.index},"delta":{_news(update)},"logprobs":{logprobs},"finish_reason":null}}'


def _news(update: Update) -> str:
    """The delta object."""
    if not update.reasoning and not update.tool_calls:
        return f'{{"content":{json_string(update.text)}}}'
    parts: list[str] = []
    if update.reasoning:
        text = json_string(update.reasoning)
        parts.append(f'"reasoning":{text},"reasoning_content":{text}')
    if update.text:
        parts.append(f'"content":{json_string(update.text)}')
    if update.tool_calls:
        parts.append(f'"tool_calls":{compact([_call(delta) for delta in update.tool_calls])}')
    return "{" + ",".join(parts) + "}"


def _call(delta: ToolCallDelta) -> dict[str, Any]:
    """The first delta of a call introduces it, the others only append."""
    if delta.id is None:
        return {"index": delta.index, "function": {"arguments": delta.arguments}}
    function = {"name": delta.name, "arguments": delta.arguments}
    return {"index": delta.index, "id": delta.id, "type": "function", "function": function}


def _ending(update: Update) -> str:
    return f'{{"index":{update.index},"delta":{{}},"logprobs":null,"finish_reason":"{update.finish_reason}"}}'
