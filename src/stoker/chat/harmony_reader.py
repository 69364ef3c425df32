"""gpt-oss: a reply that is a series of messages, each with a header (see `tools/harmony.py`).

The prompt ends in `<|start|>assistant`, so a reply begins inside a header.
"""

from __future__ import annotations

import re

from stoker.chat.calls import CallWriter
from stoker.chat.lenient_json import LenientJson, partial_suffix
from stoker.chat.reading import ReplyReading
from stoker.chat.segments import Piece, Segment
from stoker.chat.tools.base import Toolbox
from stoker.chat.tools.harmony import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, RETURN, START

_ENDS = (END, CALL, RETURN, START, CHANNEL)
_CHANNEL_NAME = re.compile(re.escape(CHANNEL) + r"\s*(\w+)")
_RECIPIENT = re.compile(r"\bto=(?:functions\.)?([^\s<]+)")
_HEADER_BEGINNINGS = (CHANNEL, MESSAGE, START, CONSTRAIN, "assistant", "to=")
_MAX_HEADER = 300  # characters


class HarmonyReader:
    """The analysis channel is thinking; commentary with an offered tool as its recipient is a call;
    everything else is answer. Text that no header announces is answer, too."""

    def __init__(self, reading: ReplyReading) -> None:
        self._toolbox = Toolbox(reading.tools)
        self._looks_for_calls = reading.tool_format is not None
        self._held = ""
        self._in_header = True
        self._arguments: LenientJson | None = None
        self._num_fed = 0
        self.inside = False
        self.calls = CallWriter(parallel=reading.parallel, drop=reading.drop_calls)

    @property
    def num_held(self) -> int:
        return 0 if self._in_header else len(self._held)

    def feed(self, text: str) -> list[Piece]:
        self._num_fed += len(text)
        self._held += text
        pieces: list[Piece] = []
        while not self.calls.complete and self._step(pieces, ended=False):
            pass
        return pieces

    def finish(self) -> list[Piece]:
        pieces: list[Piece] = []
        while not self.calls.complete and self._step(pieces, ended=True):
            pass
        if self._arguments is not None and not self.calls.complete:
            self._end_call(self._arguments, pieces)
        return pieces

    def _step(self, pieces: list[Piece], ended: bool) -> bool:
        return self._header(pieces, ended) if self._in_header else self._body(pieces, ended)

    def _header(self, pieces: list[Piece], ended: bool) -> bool:
        end = self._held.find(MESSAGE)
        if end < 0 or not self._held.lstrip().startswith(_HEADER_BEGINNINGS):
            return self._no_header(ended)
        header, self._held = self._held[:end], self._held[end + len(MESSAGE) :]
        self._in_header = False
        channel = _CHANNEL_NAME.search(header)
        recipient = _RECIPIENT.search(header)
        self.inside = channel is not None and channel[1] == "analysis"
        if recipient and self._looks_for_calls and recipient[1] in self._toolbox:
            self._arguments = LenientJson()
            self.inside = False
            pieces += self.calls.begin(recipient[1])
        return True

    def _no_header(self, ended: bool) -> bool:
        text = self._held.lstrip()
        may_be = any(text.startswith(word) or word.startswith(text) for word in _HEADER_BEGINNINGS)
        if may_be and len(text) <= _MAX_HEADER:
            if ended:
                self._held = ""
            return False
        self._in_header = False
        self.inside = False
        return True

    def _body(self, pieces: list[Piece], ended: bool) -> bool:
        found = [(at, word) for word in _ENDS if (at := self._held.find(word)) >= 0]
        at, word = min(found, default=(len(self._held), ""))
        if not word and not ended:
            at -= partial_suffix(self._held, _ENDS)
        taken = at if word == CHANNEL else at + len(word)  # a header that nothing announced
        text, self._held = self._held[:at], self._held[taken:]
        if self._arguments is not None:
            pieces += self.calls.append(self._arguments.feed(text))
            if word:
                self._end_call(self._arguments, pieces)
        elif text:
            pieces.append(Segment(self.inside, text, self._num_fed - len(self._held)))
        if word:
            self._in_header = True
            self.inside = False
        return bool(word)

    def _end_call(self, arguments: LenientJson, pieces: list[Piece]) -> None:
        is_cut = not arguments.done
        if is_cut:
            pieces += self.calls.append(arguments.finish())
        self._arguments = None
        self.calls.end(is_cut)
