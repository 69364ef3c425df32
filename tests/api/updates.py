"""A generation that yields updates written by hand, for tests of what the protocols make of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.api.generation import Order, Update, Usage
from stoker.chat.calls import ToolCallDelta
from stoker.core import SamplingParams
from stoker.errors import StokerError

CALL_ID = "call_" + "0" * 23


def thought(text: str) -> Update:
    return Update(0, reasoning=text)


def text(text: str) -> Update:
    return Update(0, text)


def call(index: int, name: str | None, arguments: str) -> Update:
    """A step of a call; one with a name begins it."""
    id = f"{CALL_ID}{index}" if name is not None else None
    return Update(0, tool_calls=(ToolCallDelta(index, id, name, arguments),))


def end(reason: Any = "stop", stop_sequence: str | None = None) -> Update:
    return Update(0, finish_reason=reason, stop_sequence=stop_sequence)


@dataclass
class FakeGeneration:
    """`script` holds updates, each a batch of its own, and perhaps an error at the end."""

    script: Sequence[Update | StokerError]
    order: Order = field(default_factory=lambda: Order("id_1", ((1, 2, 3),), SamplingParams(), None))
    usage: Usage = field(default_factory=lambda: Usage(3, 7, 2, "batched"))

    def __post_init__(self) -> None:
        self._rest = iter(self.script)

    def num_reasoning_tokens(self, index: int) -> int:
        return 4

    def cancel(self) -> None:
        pass

    async def next_updates(self) -> list[Update]:
        item = next(self._rest, None)
        if isinstance(item, StokerError):
            raise item
        return [] if item is None else [item]


def named_frames(body: str) -> list[dict[str, Any]]:
    """The data of every event; asserts that each has an `event:` line equal to its type and that no
    [DONE] follows. Heartbeat comments are left out."""
    assert body.endswith("\n\n")
    events = []
    for frame in body.removesuffix("\n\n").split("\n\n"):
        if frame.startswith(":"):
            continue
        name, data = frame.split("\n")
        event: dict[str, Any] = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events
