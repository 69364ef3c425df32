"""Parser of the formats that put whole JSON calls, single or in a list, between markers.

<tool_call>{"name": ..., "arguments": {...}}</tool_call>      <|tool_call|>[{...}, {...}]
"""

from __future__ import annotations

import re

from stoker.chat.tools.base import Toolbox
from stoker.chat.tools.call_object import CallObject
from stoker.chat.tools.machine import BlockMachine

_MAX_PROSE = 200  # characters between the marker and the first brace
_LEAD = re.compile(r"[^<{]*")
_BETWEEN = re.compile(r"(?:[\s,;\]}]|```(?=\s*(?:$|<)))*")


class JsonBlocks(BlockMachine):
    """`opener` is the marker ("" for bare JSON), `closer` what ends the block ("" = nothing does).

    The closer is not insisted on: prose behind a complete call ends the block.
    """

    def __init__(self, toolbox: Toolbox, opener: str, closer: str = "") -> None:
        super().__init__(toolbox)
        self._opener = opener
        self._closer = closer
        self._call: CallObject | None = None
        self._num_calls = 0
        self._skip_opener = bool(opener)

    def _step(self, ended: bool) -> bool:
        if self._call is not None:
            return self._read_call(self._call, ended)
        if self._skip_opener:
            self._held = self._held[len(self._opener) :]
            self._skip_opener = False
        if not self._num_calls:
            return self._read_lead()
        return self._read_between(ended)

    def _at_end(self) -> None:
        if self._num_calls:
            self._stop("")
        else:
            self._give_up()

    def _read_lead(self) -> bool:
        """Space, a fence, an opening bracket, a few words: then the first brace."""
        lead = _LEAD.match(self._held)
        end = lead.end() if lead else 0
        behind = self._held[end:]
        prose = self._held[:end].strip(" \t\r\n[")
        if end > _MAX_PROSE or (prose and not self._opener):
            return self._give_up()
        if not behind or (behind[0] == "<" and self._opener.startswith(behind) and behind != self._opener):
            return False
        if behind[0] == "{":
            return self._open_call(end)
        if self._opener and behind.startswith(self._opener):  # the marker twice
            self._held = behind[len(self._opener) :]
            return True
        return self._give_up()

    def _read_between(self, ended: bool) -> bool:
        space = _BETWEEN.match(self._held)
        end = space.end() if space else 0
        behind = self._held[end:]
        if not behind:
            return False
        if self._closer and behind.startswith(self._closer):
            return self._stop(behind[len(self._closer) :])
        if self._closer.startswith(behind) or "```".startswith(behind):
            return self._stop("") if ended else False
        if behind[0] == "{":
            return self._open_call(end)
        return self._stop(behind)

    def _open_call(self, at: int) -> bool:
        self._raw = self._raw if not self._num_calls else self._held
        self._call = CallObject(self._toolbox, self._closer)
        self._held = self._held[at:]
        return True

    def _read_call(self, call: CallObject, ended: bool) -> bool:
        text, self._held = self._held, ""
        self._events += call.feed(text)
        if ended and not (call.done or call.failed):
            self._events += call.finish()
        if call.failed:
            return self._give_up()
        if not call.done:
            return False
        self._call = None
        self._num_calls += 1
        self._held = self._raw = call.rest
        return True
