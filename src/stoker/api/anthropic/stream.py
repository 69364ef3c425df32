"""A Messages generation as events: message_start, per block start / deltas / stop, message_delta,
message_stop.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from stoker.api.anthropic import reply
from stoker.api.errors import anthropic_shape
from stoker.api.generation import Generation
from stoker.api.parts import Part, PartBuilder, Step
from stoker.api.sse import KEEP_ALIVE, compact, json_string
from stoker.errors import StokerError

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
HEARTBEAT = KEEP_ALIVE + PING  # this protocol's own sign of life, and the one all streams have


class MessageStream:
    """Writes one generation. `error_frame` is its last word after a failure."""

    def __init__(self, generation: Generation, *, model: str) -> None:
        self._generation = generation
        self._model = model
        self._built = PartBuilder()

    async def frames(self) -> AsyncGenerator[bytes, None]:
        # At once, with the size of the prompt: clients show it and decide by it when to compact.
        yield self._start().encode() + PING
        while updates := await self._generation.next_updates():
            steps = [step for update in updates for step in self._built.feed(update)]
            written = "".join(map(_step_frames, steps))
            if self._built.finish_reason is not None:
                written += self._end(reply.ending(self._built))
            if written:
                yield written.encode()

    def error_frame(self, error: StokerError) -> bytes:
        """The error, then the closing frames with the usage so far: some clients wait for them."""
        steps: list[Step] = []
        self._built.close(steps)
        closing = "".join(map(_step_frames, steps))
        failed = _frame("error", compact(anthropic_shape(error)))
        return (closing + failed + self._end({"stop_reason": None, "stop_sequence": None})).encode()

    def _start(self) -> str:
        message = reply.message_head(self._generation.order.id, self._model)
        message["usage"] = reply.usage_block(len(self._generation.order.prompts[0]), 0, 0, 0)
        return _frame("message_start", compact({"type": "message_start", "message": message}))

    def _end(self, ending: reply.Json) -> str:
        empty = "" if self._built.parts else _empty_block()
        delta = {
            "type": "message_delta",
            "delta": {**ending, "stop_details": None, "container": None},
            "usage": reply.final_usage(self._generation),
        }
        return (
            empty
            + _frame("message_delta", compact(delta))
            + _frame("message_stop", '{"type":"message_stop"}')
        )


def _step_frames(step: Step) -> str:
    if step.action == "open":
        return _block_start(step.part.index, _opening(step.part))
    if step.action == "add":
        return _block_delta(step.part.index, _delta(step.part, step.text)) if step.text else ""
    signature = '{"type":"signature_delta","signature":""}'
    signed = _block_delta(step.part.index, signature) if step.part.kind == "reasoning" else ""
    return signed + _block_stop(step.part.index)


def _opening(part: Part) -> reply.Json:
    if part.kind == "reasoning":
        return {"type": "thinking", "thinking": "", "signature": ""}
    return reply.empty_text() if part.kind == "text" else reply.tool_head(part)


_DELTAS = {
    "reasoning": ("thinking_delta", "thinking"),
    "text": ("text_delta", "text"),
    "call": ("input_json_delta", "partial_json"),
}


def _delta(part: Part, text: str) -> str:
    kind, name = _DELTAS[part.kind]
    return f'{{"type":"{kind}","{name}":{json_string(text)}}}'


def _empty_block() -> str:
    return _block_start(0, reply.empty_text()) + _block_stop(0)


def _block_start(index: int, block: reply.Json) -> str:
    data = f'{{"type":"content_block_start","index":{index},"content_block":{compact(block)}}}'
    return _frame("content_block_start", data)


def _block_delta(index: int, delta: str) -> str:
    return _frame("content_block_delta", f'{{"type":"content_block_delta","index":{index},"delta":{delta}}}')


def _block_stop(index: int) -> str:
    return _frame("content_block_stop", f'{{"type":"content_block_stop","index":{index}}}')


def _frame(event: str, data: str) -> str:
    return f"event: {event}\ndata: {data}\n\n"
