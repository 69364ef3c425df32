"""A chat generation as a stream of chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from stoker.api.generation import Generation, Update
from stoker.api.openai.chunks import ChunkWriter, write_stream
from stoker.api.openai.logprobs import content_block
from stoker.api.openai.sampling import StreamOptions
from stoker.api.sse import compact, json_string


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
    return f'{{"index":{index},"delta":{{"role":"assistant","content":""}},"finish_reason":null}}'


def _delta(update: Update) -> str:
    return f'{{"index":{update.index},"delta":{{"content":{json_string(update.text)}}},"finish_reason":null}}'


def _delta_with_logprobs(update: Update) -> str:
    logprobs = compact(content_block(update.logprobs))
    return (
        f'{{"index":{update.index},"delta":{{"content":{json_string(update.text)}}},'
        f'"logprobs":{logprobs},"finish_reason":null}}'
    )


def _ending(update: Update) -> str:
    return f'{{"index":{update.index},"delta":{{}},"finish_reason":"{update.finish_reason}"}}'
