"""Parser of the formats that put whole JSON calls, single or in a list, between markers.

<tool_call>{"name": ..., "arguments": {...}}</tool_call>      <|tool_call|>[{...}, {...}]
"""

from __future__ import annotations

import re

from stoker.chat.tools.base import NotACall, Toolbox, ToolEvent
from stoker.chat.tools.call_object import CallObject

_MAX_PROSE = 200  # characters between the marker and the first brace
_LEAD = re.compile(r"[^<{]*")
_BETWEEN = re.compile(r"(?:[\s,;\]}]|```(?=\s*(?:$|<)))*")


class JsonBlocks:
    """`opener` is the marker ("" for bare JSON), `closer` what ends the block ("" = nothing does).

    The closer is not insisted on: prose behind a complete call ends the block.
    """

    def __init__(self, toolbox: Toolbox, opener: str, closer: str = "") -> None:
        self._toolbox = toolbox
        self._opener = opener
        self._closer = closer
        self._raw = ""  # since the block's beginning or the last call's end
        self._held = ""
        self._call: CallObject | None = None
        self._num_calls = 0
        self._skip_opener = bool(opener)
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
        if not self.done and not self._num_calls:
            events.append(self._give_up())
        elif not self.done:
            self._stop("")
        return events

    def _step(self, events: list[ToolEvent], ended: bool) -> bool:
        if self._call is not None:
            return self._read_call(self._call, events, ended)
        if self._skip_opener:
            self._held = self._held[len(self._opener) :]
            self._skip_opener = False
        if not self._num_calls:
            return self._read_lead(events)
        return self._read_between(ended)

    def _read_lead(self, events: list[ToolEvent]) -> bool:
        """Space, a fence, an opening bracket, a few words: then the first brace."""
        lead = _LEAD.match(self._held)
        end = lead.end() if lead else 0
        behind = self._held[end:]
        prose = self._held[:end].strip(" \t\r\n[")
        if end > _MAX_PROSE or (prose and not self._opener):
            events.append(self._give_up())
            return False
        if not behind or (behind[0] == "<" and self._opener.startswith(behind) and behind != self._opener):
            return False
        if behind[0] == "{":
            self._begin(end)
            return True
        if self._opener and behind.startswith(self._opener):  # the marker twice
            self._held = behind[len(self._opener) :]
            return True
        events.append(self._give_up())
        return False

    def _read_between(self, ended: bool) -> bool:
        space = _BETWEEN.match(self._held)
        end = space.end() if space else 0
        behind = self._held[end:]
        if not behind:
            return False
        if self._closer and behind.startswith(self._closer):
            self._stop(behind[len(self._closer) :])
            return False
        if self._closer.startswith(behind) or "```".startswith(behind):
            if ended:
                self._stop("")
            return False
        if behind[0] == "{":
            self._begin(end)
            return True
        self._stop(behind)
        return False

    def _begin(self, at: int) -> None:
        self._raw = self._raw if not self._num_calls else self._held
        self._call = CallObject(self._toolbox, self._closer)
        self._held = self._held[at:]

    def _read_call(self, call: CallObject, events: list[ToolEvent], ended: bool) -> bool:
        text, self._held = self._held, ""
        made = call.feed(text)
        if ended and not (call.done or call.failed):
            made += call.finish()
        events += made
        if call.failed:
            events.append(self._give_up())
            return False
        if not call.done:
            return False
        self._call = None
        self._num_calls += 1
        self._held = self._raw = call.rest
        return True

    def _give_up(self) -> NotACall:
        self._stop("")
        return NotACall(self._raw)

    def _stop(self, rest: str) -> None:
        self.done = True
        self.rest = rest
        self._held = ""
