"""What stands between <tool_call> and </tool_call>: three families share the tag, and small models mix
them up, so the text behind the tag decides how it is read."""

from __future__ import annotations

import re

from stoker.chat.tools.base import CallParser, NotACall, Toolbox, ToolEvent
from stoker.chat.tools.element_tags import Dialect, Framing
from stoker.chat.tools.elements import ElementCalls
from stoker.chat.tools.json_blocks import JsonBlocks

OPEN, CLOSE = "<tool_call>", "</tool_call>"
FUNCTION = "<function="
_FUNCTIONS = Dialect(OPEN, CLOSE, Framing.LINES)
_BARE_FUNCTION = Dialect(framing=Framing.LINES)
_PAIRS = Dialect(OPEN, CLOSE, is_pairs=True)
_HEAD = re.compile(r"[^<\n]*")


def make_parser(toolbox: Toolbox) -> CallParser:
    return ByFirstText(toolbox)


class ByFirstText:
    """Waits for the first characters behind the marker, then hands over."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self._held = ""
        self._inner: CallParser | None = None
        self.done = False
        self.rest = ""

    def feed(self, text: str) -> list[ToolEvent]:
        if self._inner is None:
            self._held += text
            text = self._held
            self._inner = self._choose()
        return [] if self._inner is None else self._pass_on(self._inner, self._inner.feed(text))

    def finish(self) -> list[ToolEvent]:
        if self._inner is not None:
            return self._pass_on(self._inner, self._inner.finish())
        self.done = True
        return [NotACall(self._held)]

    def _pass_on(self, inner: CallParser, events: list[ToolEvent]) -> list[ToolEvent]:
        self.done, self.rest = inner.done, inner.rest
        return events

    def _choose(self) -> CallParser | None:
        if self._held.startswith("<function"):
            return ElementCalls(self._toolbox, _BARE_FUNCTION)
        body = self._held[len(OPEN) :].lstrip()
        if not body or FUNCTION.startswith(body):
            return None
        if body.startswith("<function"):
            return ElementCalls(self._toolbox, _FUNCTIONS)
        if body[0] == "<":
            return JsonBlocks(self._toolbox, OPEN, CLOSE)
        head = _HEAD.match(body)
        assert head is not None
        word = head[0].strip()
        # Only by what stands first: deciding must not depend on how much has come.
        if word in self._toolbox and head.end() < len(body):
            return ElementCalls(self._toolbox, _PAIRS)
        if self._toolbox.may_become(word):
            return None
        return JsonBlocks(self._toolbox, OPEN, CLOSE)
