"""Tool calls as every protocol sees them: whole ones, and the steps of one that is still coming.

How a family writes them is `tools/`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One complete call."""

    id: str  # "call_" and 24 hexadecimal digits
    name: str
    arguments: str  # always a JSON string


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """One step of a streamed call."""

    index: int  # 0, 1, ... in order of appearance in this choice
    id: str | None = None  # with the first delta of a call
    name: str | None = None  # with the first delta of a call
    arguments: str = ""  # JSON text to append


def new_call_id() -> str:
    return f"call_{uuid4().hex[:24]}"


def join_deltas(deltas: list[ToolCallDelta]) -> tuple[ToolCall, ...]:
    """The calls that a choice's deltas add up to."""
    ids: list[str] = []
    names: list[str] = []
    arguments: list[list[str]] = []
    for delta in deltas:
        if delta.index == len(names):
            ids.append(delta.id or "")
            names.append(delta.name or "")
            arguments.append([])
        arguments[delta.index].append(delta.arguments)
    return tuple(ToolCall(i, n, "".join(a)) for i, n, a in zip(ids, names, arguments, strict=True))


class CallWriter:
    """Gives the calls of one choice their numbers and ids."""

    def __init__(self, *, parallel: bool = True, drop: bool = False) -> None:
        self._parallel = parallel
        self.drops = drop
        self.num_seen = 0  # dropped ones too
        self.num_calls = 0
        self.is_cut = False  # the last call has no end of its own
        self.complete = False  # no further call is wanted

    def begin(self, name: str) -> list[ToolCallDelta]:
        self.is_cut = True
        self.num_seen += 1
        if self.drops:
            return []
        self.num_calls += 1
        return [ToolCallDelta(self.num_calls - 1, new_call_id(), name, "")]

    def append(self, arguments: str) -> list[ToolCallDelta]:
        return [] if self.drops or not arguments else [ToolCallDelta(self.num_calls - 1, arguments=arguments)]

    def end(self, is_cut: bool) -> None:
        self.is_cut = is_cut
        self.complete = not self._parallel and not self.drops
