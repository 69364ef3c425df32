"""Parser of the formats that write a header with the name, then the arguments as one JSON object.

[TOOL_CALLS]NAME[ARGS]{...}      <｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}<｜tool▁call▁end｜>
"""

from __future__ import annotations

import re

from stoker.chat.lenient_json import LenientJson
from stoker.chat.tools.base import Toolbox
from stoker.chat.tools.machine import BlockMachine

_MAX_HEADER = 300  # characters


class HeadedCalls(BlockMachine):
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
        super().__init__(toolbox)
        self._header = header
        self._tails = tails
        self._raw_quotes = raw_quotes
        self._again = again
        self._arguments: LenientJson | None = None
        self._in_tail = False

    def _step(self, ended: bool) -> bool:
        if self._arguments is not None:
            return self._read_arguments(self._arguments, ended)
        if self._in_tail:
            return self._read_tail(ended)
        return self._read_header(ended)

    def _read_header(self, ended: bool) -> bool:
        brace = self._held.find("{")
        if brace < 0 and not ended and len(self._held) <= _MAX_HEADER:
            return False
        found = self._header.fullmatch(self._held[:brace] if brace >= 0 else self._strip_tails())
        if found is None or found["name"] not in self._toolbox:
            return self._give_up()
        self._begin(found["name"])
        if brace < 0:  # no arguments at all
            self._write("{}")
            self._end()
            return self._stop("")
        self._arguments = LenientJson(self._raw_quotes)
        self._held = self._held[brace:]
        return True

    def _strip_tails(self) -> str:
        text = self._held.rstrip()
        for tail in self._tails:
            text = text.removesuffix(tail).rstrip()
        return text

    def _read_arguments(self, arguments: LenientJson, ended: bool) -> bool:
        self._write(arguments.feed(self._held))
        self._held = ""
        if arguments.failed or (ended and not arguments.done):
            self._write(arguments.finish())
        if not (arguments.done or arguments.failed or ended):
            return False
        self._end(is_cut=not arguments.done)
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
        return self._stop(self._held)
