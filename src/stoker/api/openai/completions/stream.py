"""A text completion as a stream of chunks."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from stoker.api.generation import Generation, Update
from stoker.api.openai.chunks import ChunkWriter, write_stream
from stoker.api.openai.completions.parse import TextRequest
from stoker.api.openai.logprobs import legacy_block, text_length
from stoker.api.sse import compact, json_string


def stream_chunks(
    generation: Generation, request: TextRequest, *, model: str, created: int
) -> AsyncGenerator[bytes, None]:
    head = {"id": generation.order.id, "object": "text_completion", "created": created, "model": model}
    writer = ChunkWriter(head, usage_chunk=request.stream.usage_chunk)
    echoes = request.echoes

    def opening(index: int) -> str:
        return _choice(index, echoes[index], "null")

    with_logprobs = _LogprobDelta(request)
    return write_stream(
        generation,
        writer,
        opening=opening if any(echoes) else None,
        delta=with_logprobs if generation.order.want_logprobs else _delta,
        ending=_ending,
    )


class _LogprobDelta:
    """Chunks with logprobs; remembers how far each choice's text has come for `text_offset`."""

    def __init__(self, request: TextRequest) -> None:
        self._top = request.order.sampling.logprobs
        self._offsets = [len(echo) for echo in request.echoes]

    def __call__(self, update: Update) -> str:
        block = legacy_block(update.logprobs, self._top, self._offsets[update.index])
        self._offsets[update.index] += sum(map(text_length, update.logprobs))
        return _choice(update.index, update.text, "null", f'"logprobs":{compact(block)},')


def _delta(update: Update) -> str:
    return _choice(update.index, update.text, "null")


def _ending(update: Update) -> str:
    return _choice(update.index, "", f'"{update.finish_reason}"')


def _choice(index: int, text: str, reason: str, logprobs: str = "") -> str:
    return f'{{"index":{index},"text":{json_string(text)},{logprobs}"finish_reason":{reason}}}'
