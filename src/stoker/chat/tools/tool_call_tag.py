"""What stands between <tool_call> and </tool_call>: three families share the tag, and small models mix
them up, so the text behind the tag decides how it is read."""

from __future__ import annotations

from stoker.chat.tools.base import CallParser, NotACall, Toolbox, ToolEvent
from stoker.chat.tools.blocks import WholeBlock
from stoker.chat.tools.json_blocks import JsonBlocks
from stoker.chat.tools.xml_bodies import (
    find_bare_function_end,
    find_function_end,
    find_glm_end,
    read_functions,
    read_glm,
)

OPEN, CLOSE = "<tool_call>", "</tool_call>"
FUNCTION = "<function="


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
            return WholeBlock(self._toolbox, "", read_functions, find_bare_function_end, "</function>")
        body = self._held[len(OPEN) :].lstrip()
        if not body or FUNCTION.startswith(body):
            return None
        if body.startswith("<function"):
            return WholeBlock(self._toolbox, OPEN, read_functions, find_function_end(CLOSE), CLOSE)
        if body[0] == "<":
            return JsonBlocks(self._toolbox, OPEN, CLOSE)
        word = body.partition("<")[0].strip()
        is_glm = "<arg_key>" in body or word in self._toolbox
        if is_glm and ("\n" in body or "<" in body):
            return WholeBlock(self._toolbox, OPEN, read_glm, find_glm_end, CLOSE)
        if self._toolbox.may_become(word):
            return None
        return JsonBlocks(self._toolbox, OPEN, CLOSE)
