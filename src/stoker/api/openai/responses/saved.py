"""What the store keeps of a response, as JSON under its id."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from stoker.api.openai.responses.items import Item
from stoker.api.state import ApiState
from stoker.errors import NotFound

_REPLAYED = ("message", "function_call")  # thoughts of finished turns are not


@dataclass(frozen=True, slots=True)
class SavedResponse:
    response: dict[str, Any]  # as it was answered
    input: list[Item]  # everything it was a reply to, earlier responses included
    instructions: str | None

    def history(self) -> list[Item]:
        """The conversation up to and including this response."""
        return [*self.input, *(item for item in self.response["output"] if item["type"] in _REPLAYED)]


def save_response(state: ApiState, saved: SavedResponse) -> None:
    entry = {"response": saved.response, "input": saved.input, "instructions": saved.instructions}
    data = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()
    state.responses.put(saved.response["id"], data)


def load_response(state: ApiState, id: str, *, param: str | None = None) -> SavedResponse:
    """Raises NotFound for one that never was, was not to be stored, or is too old."""
    data = state.responses.get(id)
    if data is None:
        raise response_not_found(id, param)
    entry = json.loads(data)
    return SavedResponse(entry["response"], entry["input"], entry["instructions"])


def response_not_found(id: str, param: str | None = None) -> NotFound:
    shown = id if len(id) <= 64 else id[:61] + "..."
    return NotFound(f"no response with id {shown!r}: responses are kept for an hour", param=param)
