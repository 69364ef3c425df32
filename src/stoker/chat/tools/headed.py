"""Parser of the formats that write a header with the name, then the arguments as one JSON object.

[TOOL_CALLS]NAME[ARGS]{...}      <｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}<｜tool▁call▁end｜>
"""

from __future__ import annotations

import re

from stoker.chat.lenient_json import LenientJson
from stoker.chat.tools.base import CallBegin, CallEnd, CallText, NotACall, Toolbox, ToolEvent

_MAX_HEADER = 300  # characters


class HeadedCalls:
    """`header` matches the text from the marker to the brace and has a group `name`. `tails` may stand
    behind the arguments. With `again`, the beginning of a further header, calls may follow directly."""

    def __init__(
        self,
        toolbox: Toolbox,
        header: re.Pattern[str],
        tails: tuple[str, ...] = (),
        raw_quotes: tuple[str, ...] = (),
        again: tuple[str, ...] = (),
    ) -> None:
        self._toolbox = toolbox
        self._header = header
        self._tails = tails
        self._raw_quotes = raw_quotes
        self._again = again
        self._raw = ""
        self._held = ""
        self._arguments: LenientJson | None = None
        self._in_tail = False
        self.done = False
        self.rest = ""

    def feed(self, text: str) -> list[ToolEvent]:
        if self.done:
            self.rest += text
            return []
        self._raw += text
        self._held += text
        events: list[ToolEvent] = []
        while not self.done and self._step(events, ended=False):
            pass
        return events

    def finish(self) -> list[ToolEvent]:
        events: list[ToolEvent] = []
        while not self.done and self._step(events, ended=True):
            pass
        return events

    def _step(self, events: list[ToolEvent], ended: bool) -> bool:
        if self._arguments is not None:
            return self._read_arguments(self._arguments, events, ended)
        if self._in_tail:
            return self._read_tail(ended)
        return self._read_header(events, ended)

    def _read_header(self, events: list[ToolEvent], ended: bool) -> bool:
        brace = self._held.find("{")
        if brace < 0 and not ended and len(self._held) <= _MAX_HEADER:
            return False
        found = self._header.fullmatch(self._held[:brace] if brace >= 0 else self._strip_tails())
        if found is None or found["name"] not in self._toolbox:
            events.append(NotACall(self._raw))
            self._stop("")
            return False
        events.append(CallBegin(found["name"]))
        if brace < 0:  # no arguments at all
            events += [CallText("{}"), CallEnd()]
            self._stop("")
            return False
        self._arguments = LenientJson(self._raw_quotes)
        self._held = self._held[brace:]
        return True

    def _strip_tails(self) -> str:
        text = self._held.rstrip()
        for tail in self._tails:
            text = text.removesuffix(tail).rstrip()
        return text

    def _read_arguments(self, arguments: LenientJson, events: list[ToolEvent], ended: bool) -> bool:
        out = arguments.feed(self._held)
        self._held = ""
        if arguments.failed or (ended and not arguments.done):
            out += arguments.finish()
        if out:
            events.append(CallText(out))
        if not (arguments.done or arguments.failed or ended):
            return False
        events.append(CallEnd(is_cut=not arguments.done))
        self._arguments = None
        self._in_tail = True
        self._held = self._raw = arguments.rest
        return True

    def _read_tail(self, ended: bool) -> bool:
        behind = self._held.lstrip()
        for word in self._tails:
            if behind.startswith(word):
                self._held = self._raw = behind[len(word) :]
                return True
        if any(behind.startswith(word) for word in self._again):
            self._held = self._raw = behind
            self._in_tail = False
            return True
        if not ended and any(word.startswith(behind) for word in (*self._tails, *self._again)):
            return False
        self._stop(self._held)
        return False

    def _stop(self, rest: str) -> None:
        self.done = True
        self.rest = rest
        self._held = ""
