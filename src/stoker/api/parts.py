"""A reply as a sequence of parts (thinking, text, calls), from the updates of its one choice.

Messages calls them content blocks, Responses calls them output items; both want each opened, added
to and closed before the next. No JSON here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from starlette.requests import Request

from stoker.api.disconnect import unless_disconnected
from stoker.api.generation import Generation, ReplyEnd, Update
from stoker.chat.calls import ToolCallDelta, new_call_id
from stoker.chat.reply import LogprobEntry

PartKind = Literal["reasoning", "text", "call"]


@dataclass(slots=True)
class Part:
    """`text` is the thought, the answer, or a call's arguments as JSON text."""

    index: int  # 0, 1, ... in the reply
    kind: PartKind
    text: str = ""
    logprobs: list[LogprobEntry] = field(default_factory=list)
    call_id: str = ""  # "call_..."
    name: str = ""  # of the called function
    key: int = -1  # the call's own index among the calls


@dataclass(slots=True)  # not frozen: there is one for every token
class Step:
    """What happened to a part. `text` and `logprobs` are what an `add` added."""

    action: Literal["open", "add", "close"]
    part: Part
    text: str = ""
    logprobs: Sequence[LogprobEntry] = ()


class PartBuilder:
    """`feed` updates as they come; the one with the finish reason closes what is open.

    Blank text between parts opens none: models put newlines around thoughts and calls, and some
    clients send an empty part back and are refused elsewhere. Blank text that is the whole reply
    is kept.
    """

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.finish_reason: ReplyEnd | None = None
        self.stop_sequence: str | None = None
        self._open: Part | None = None
        self._blank = ""  # text that has not opened a part yet
        self._blank_logprobs: list[LogprobEntry] = []

    def feed(self, update: Update) -> list[Step]:
        steps: list[Step] = []
        if update.reasoning:
            self._switch("reasoning", -1, steps)
            self._add(update.reasoning, (), steps)
        if update.text or update.logprobs:
            self._take_text(update, steps)
        for delta in update.tool_calls:
            self._take_call(delta, steps)
        if update.finish_reason is not None:
            self.finish_reason = update.finish_reason
            self.stop_sequence = update.stop_sequence
            if not self.parts and self._blank:
                self._open_text(steps)
            self.close(steps)
        return steps

    def close(self, steps: list[Step]) -> None:
        """Closes the open part; also after a failure, when no finish reason comes."""
        if self._open is not None:
            steps.append(Step("close", self._open))
            self._open = None

    def _take_text(self, update: Update, steps: list[Step]) -> None:
        if self._open is not None and self._open.kind == "text":
            self._add(update.text, update.logprobs, steps)
            return
        self._blank += update.text
        self._blank_logprobs += update.logprobs
        if self._blank.strip():
            self._open_text(steps)

    def _open_text(self, steps: list[Step]) -> None:
        text, logprobs = self._blank, self._blank_logprobs
        self._switch("text", -1, steps)
        self._add(text, logprobs, steps)

    def _take_call(self, delta: ToolCallDelta, steps: list[Step]) -> None:
        part = self._switch("call", delta.index, steps, delta)
        if delta.arguments or part.text:
            self._add(delta.arguments, (), steps)

    def _switch(self, kind: PartKind, key: int, steps: list[Step], call: ToolCallDelta | None = None) -> Part:
        if self._open is not None and (self._open.kind, self._open.key) == (kind, key):
            return self._open
        self.close(steps)
        self._blank, self._blank_logprobs = "", []
        part = Part(len(self.parts), kind, key=key)
        if call is not None:
            part.call_id, part.name = call.id or new_call_id(), call.name or ""
        self.parts.append(part)
        self._open = part
        steps.append(Step("open", part))
        return part

    def _add(self, text: str, logprobs: Sequence[LogprobEntry], steps: list[Step]) -> None:
        part = self._open
        assert part is not None
        part.text += text
        part.logprobs += logprobs
        if text or logprobs:
            steps.append(Step("add", part, text, logprobs))


async def build_parts(generation: Generation, builder: PartBuilder) -> PartBuilder:
    """Runs a generation of one choice to its end, feeding the builder."""
    while updates := await generation.next_updates():
        for update in updates:
            builder.feed(update)
    return builder


async def finish_parts(request: Request, generation: Generation) -> PartBuilder:
    """The same while the client waits. Raises RequestCancelled when it goes away first; the rows are
    free then."""
    try:
        return await unless_disconnected(request.receive, build_parts(generation, PartBuilder()))
    finally:
        generation.cancel()
