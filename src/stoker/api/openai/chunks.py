"""Stream chunks of both completion endpoints, built from constant parts around the changing ones.

One list of updates becomes one write. Not json.dumps of a whole chunk: at a thousand tokens a
second that would be most of the front's time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

from stoker.api.generation import Generation, Update
from stoker.api.openai.usage import usage_block
from stoker.api.sse import compact, json_string
from stoker.errors import StokerError


class ChunkWriter:
    """`head` holds the fields every chunk repeats. `usage_chunk`: OpenAI's way of reporting usage
    (every chunk has `usage: null`, an extra last one has no choices and the figures) instead of the
    default one (figures on the last choice's last chunk)."""

    def __init__(self, head: dict[str, Any], *, usage_chunk: bool) -> None:
        self._head = "data: " + compact(head)[:-1] + ',"choices":['
        self._tail = '],"usage":null}\n\n' if usage_chunk else "]}\n\n"
        self._usage_chunk = usage_chunk

    def chunk(self, choice: str) -> str:
        return f"{self._head}{choice}{self._tail}"

    def last_chunk(self, choice: str, usage: dict[str, Any]) -> str:
        figures = f'],"usage":{compact(usage)}}}\n\n'
        if self._usage_chunk:
            return f"{self.chunk(choice)}{self._head}{figures}"
        return f"{self._head}{choice}{figures}"


def error_frame(error: StokerError) -> bytes:
    """The protocol's last word after a failure; no [DONE] follows."""
    return f'data: {{"error":{{"message":{json_string(error.message)}}}}}\n\n'.encode()


async def write_stream(
    generation: Generation,
    writer: ChunkWriter,
    *,
    opening: Callable[[int], str] | None,
    delta: Callable[[Update], str],
    ending: Callable[[Update], str],
) -> AsyncGenerator[bytes, None]:
    """The bytes of a whole stream. The callables make the `choices` entry of a choice's first
    chunk, of one with news, and of its last one."""
    num_open = generation.order.num_choices
    while updates := await generation.next_updates():
        parts: list[str] = []
        if opening is not None:
            parts += [writer.chunk(opening(index)) for index in range(num_open)]
            opening = None
        for update in updates:
            if update.finish_reason is None:
                parts.append(writer.chunk(delta(update)))
                continue
            num_open -= 1
            if num_open:
                parts.append(writer.chunk(ending(update)))
            else:
                parts.append(writer.last_chunk(ending(update), usage_block(generation.usage)))
                parts.append("data: [DONE]\n\n")
        yield "".join(parts).encode()
