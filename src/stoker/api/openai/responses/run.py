"""One response from its request to its last word: the object's fields as they come to be known.

Whole answers and streams share it, so both say the same. It stores what it ends with.
"""

from __future__ import annotations

import time
from typing import Any

from stoker.api.errors import responses_shape
from stoker.api.generation import Generation
from stoker.api.openai.logprobs import content_block
from stoker.api.openai.responses.items import encode_thought, new_id
from stoker.api.openai.responses.parse import ResponseRequest
from stoker.api.openai.responses.saved import SavedResponse, save_response
from stoker.api.parts import Part, PartBuilder
from stoker.api.state import ApiState
from stoker.errors import StokerError

Json = dict[str, Any]

_ID_PREFIXES = {"reasoning": "rs", "text": "msg", "call": "fc"}


class ResponseRun:
    """`built` is fed by whoever reads the generation; then one of the endings is called, once."""

    def __init__(self, state: ApiState, request: ResponseRequest, generation: Generation) -> None:
        self.request = request
        self.generation = generation
        self.built = PartBuilder()
        self.cancelled = False  # by the cancel route; the reader of the generation gets Unavailable
        self._state = state
        self._store = request.store
        self._ids: list[str] = []

    @property
    def id(self) -> str:
        return self.generation.order.id

    def cancel(self, *, forget: bool = False) -> None:
        """Ends the generation; what there is of it stays, unless it is to be forgotten."""
        self.cancelled = True
        self._store = self._store and not forget
        self.generation.cancel()

    def snapshot(self) -> Json:
        """The object while the response is under way."""
        return {**self.request.head, "output": self._output(last="in_progress")}

    def ended(self) -> Json:
        """Completed, or incomplete because a limit was reached."""
        if self.built.finish_reason == "length":
            changes = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
            return self._finish(changes, last="incomplete")
        return self._finish({"status": "completed", "completed_at": int(time.time())}, last="completed")

    def ended_by_cancel(self) -> Json:
        return self._finish({"status": "cancelled"}, last="incomplete")

    def failed(self, error: StokerError) -> Json:
        """Not stored."""
        detail = responses_shape(error)["error"]
        shown = {"code": detail["code"] or detail["type"], "message": error.message}
        self._store = False
        return self._finish({"status": "failed", "error": shown}, last="incomplete")

    def item_id(self, part: Part) -> str:
        while len(self._ids) <= part.index:
            self._ids.append(new_id(_ID_PREFIXES[self.built.parts[len(self._ids)].kind]))
        return self._ids[part.index]

    def item(self, part: Part, status: str) -> Json:
        """The output item of a part, as far as it has come."""
        head: Json = {"id": self.item_id(part)}
        if part.kind == "reasoning":
            return {**head, **self._reasoning(part, status)}
        if part.kind == "text":
            content = [output_text(part)] if part.text or status != "in_progress" else []
            return {**head, "type": "message", "status": status, "role": "assistant", "content": content}
        return {
            **head,
            "type": "function_call",
            "status": status,
            "call_id": part.call_id,
            "name": part.name,
            "arguments": part.text,
        }

    def _reasoning(self, part: Part, status: str) -> Json:
        summary = [{"type": "summary_text", "text": part.text}] if part.text else []
        item: Json = {"type": "reasoning", "status": status, "summary": summary}
        if "reasoning.encrypted_content" in self.request.include and status != "in_progress":
            item["encrypted_content"] = encode_thought(part.text)
        return item

    def _output(self, *, last: str) -> list[Json]:
        final = len(self.built.parts) - 1
        return [self.item(part, last if part.index == final else "completed") for part in self.built.parts]

    def _finish(self, changes: Json, *, last: str) -> Json:
        response = {
            **self.request.head,
            **changes,
            "output": self._output(last=last),
            "usage": usage_block(self.generation),
        }
        if self._store:
            save_response(self._state, SavedResponse(response, self.request.items, self.request.instructions))
        return response


def output_text(part: Part) -> Json:
    return {
        "type": "output_text",
        "text": part.text,
        "annotations": [],
        "logprobs": content_block(part.logprobs)["content"],
    }


def usage_block(generation: Generation) -> Json:
    usage = generation.usage
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": generation.num_reasoning_tokens(0)},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
