"""A response as events, each with a sequence number: created, in_progress, the items one after the
other, and exactly one of completed, incomplete and failed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from stoker.api.openai.logprobs import content_block
from stoker.api.openai.responses.run import ResponseRun, output_text
from stoker.api.parts import Part, Step
from stoker.api.sse import compact, json_string
from stoker.errors import StokerError, Unavailable

_INNER_PLACE = {"text": ',"content_index":0', "reasoning": ',"summary_index":0', "call": ""}
_OPENING_TEXT = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}


class ResponseStream:
    """Writes one run. `error_frame` is its last word after a failure."""

    def __init__(self, run: ResponseRun) -> None:
        self._run = run
        self._number = 0

    async def frames(self) -> AsyncGenerator[bytes, None]:
        opening = compact(self._run.snapshot())
        first = self._event("response.created", f'"response":{opening}')
        yield (first + self._event("response.in_progress", f'"response":{opening}')).encode()
        try:
            while updates := await self._run.generation.next_updates():
                written = "".join(
                    [self._step(step) for update in updates for step in self._run.built.feed(update)]
                )
                if self._run.built.finish_reason is not None:
                    written += self._terminal(self._run.ended())
                if written:
                    yield written.encode()
        except Unavailable:
            if not self._run.cancelled:
                raise
            yield (self._close() + self._terminal(self._run.ended_by_cancel())).encode()

    def error_frame(self, error: StokerError) -> bytes:
        """What is open is closed; then the error, and the terminal event that clients wait for."""
        closing = self._close()
        failed = self._run.failed(error)
        detail = {"code": failed["error"]["code"], "message": error.message, "param": error.param}
        event = self._event("error", compact(detail)[1:-1])
        return (closing + event + self._terminal(failed)).encode()

    def _close(self) -> str:
        steps: list[Step] = []
        self._run.built.close(steps)
        return "".join(self._step(step, ended_early=True) for step in steps)

    def _terminal(self, response: dict[str, Any]) -> str:
        # A cancelled response has no event of its own; for the reader of a stream it is incomplete.
        status = "incomplete" if response["status"] == "cancelled" else response["status"]
        return self._event(f"response.{status}", f'"response":{compact(response)}')

    def _step(self, step: Step, *, ended_early: bool = False) -> str:
        if step.action == "open":
            empty = replace(step.part, text="", logprobs=[])  # the same update may have filled it
            return self._item_event("added", empty, "in_progress") + self._open_part(empty)
        if step.action == "add":
            return self._add(step)
        early = ended_early or self._run.built.finish_reason == "length"
        status = "incomplete" if early else "completed"
        return self._close_part(step.part) + self._item_event("done", step.part, status)

    def _item_event(self, what: str, part: Part, status: str) -> str:
        item = compact(self._run.item(part, status))
        return self._event(f"response.output_item.{what}", f'"output_index":{part.index},"item":{item}')

    def _open_part(self, part: Part) -> str:
        if part.kind == "text":
            return self._event(
                "response.content_part.added", f'{self._place(part)},"part":{compact(_OPENING_TEXT)}'
            )
        if part.kind == "reasoning":
            summary = '"part":{"type":"summary_text","text":""}'
            return self._event("response.reasoning_summary_part.added", f"{self._place(part)},{summary}")
        return ""

    def _add(self, step: Step) -> str:
        place, delta = self._place(step.part), f'"delta":{json_string(step.text)}'
        if step.part.kind == "text":
            logprobs = compact(content_block(list(step.logprobs))["content"]) if step.logprobs else "[]"
            return self._event("response.output_text.delta", f'{place},{delta},"logprobs":{logprobs}')
        if step.part.kind == "reasoning":
            return self._event("response.reasoning_summary_text.delta", f"{place},{delta}")
        return self._event("response.function_call_arguments.delta", f"{place},{delta}")

    def _close_part(self, part: Part) -> str:
        place = self._place(part)
        text = json_string(part.text)
        if part.kind == "text":
            whole = output_text(part)
            logprobs = compact(whole["logprobs"])
            return self._event(
                "response.output_text.done", f'{place},"text":{text},"logprobs":{logprobs}'
            ) + self._event("response.content_part.done", f'{place},"part":{compact(whole)}')
        if part.kind == "reasoning":
            summary = f'"part":{{"type":"summary_text","text":{text}}}'
            return self._event(
                "response.reasoning_summary_text.done", f'{place},"text":{text}'
            ) + self._event("response.reasoning_summary_part.done", f"{place},{summary}")
        name = json_string(part.name)
        return self._event(
            "response.function_call_arguments.done", f'{place},"name":{name},"arguments":{text}'
        )

    def _place(self, part: Part) -> str:
        """Which item, and which part of it: an item has one at most."""
        return f'"item_id":"{self._run.item_id(part)}","output_index":{part.index}{_INNER_PLACE[part.kind]}'

    def _event(self, name: str, fields: str) -> str:
        number, self._number = self._number, self._number + 1
        return f'event: {name}\ndata: {{"type":"{name}","sequence_number":{number},{fields}}}\n\n'
