"""Parser of the formats that are read once the whole block is there: XML-like and Python-like ones."""

from __future__ import annotations

from collections.abc import Callable

from stoker.chat.lenient_json import partial_suffix
from stoker.chat.tools.base import CallBegin, CallEnd, CallText, NotACall, Toolbox, ToolEvent

# A block's text without its markers -> name and arguments of each call, or None.
ReadBody = Callable[[str, Toolbox], list[tuple[str, str]] | None]
# Where the block ends: (length of the body, length with the closer), or None while it does not.
FindEnd = Callable[[str], tuple[int, int] | None]


class WholeBlock:
    """`find_end` looks for the proper end behind the opener; a text that ends before it is read as far
    as it goes."""

    def __init__(
        self, toolbox: Toolbox, opener: str, read_body: ReadBody, find_end: FindEnd, closer: str
    ) -> None:
        self._toolbox = toolbox
        self._opener = opener
        self._read_body = read_body
        self._find_end = find_end
        self._closer = closer
        self._raw = ""
        self.done = False
        self.rest = ""

    def feed(self, text: str) -> list[ToolEvent]:
        if self.done:
            self.rest += text
            return []
        self._raw += text
        # An end can only have come with this text (or its beginning just before it).
        if self._closer not in self._raw[-len(text) - len(self._closer) :]:
            return []
        found = self._find_end(self._raw[len(self._opener) :])
        if found is None:
            return []
        return self._read(*found, is_cut=False)

    def finish(self) -> list[ToolEvent]:
        if self.done:
            return []
        body = self._raw[len(self._opener) :]
        end = body.find(self._closer)
        if end >= 0:  # there is a closer, only not where it should be
            return self._read(end, end + len(self._closer), is_cut=False)
        return self._read(len(body) - partial_suffix(body, (self._closer,)), len(body), is_cut=True)

    def _read(self, size: int, size_with_closer: int, *, is_cut: bool) -> list[ToolEvent]:
        self.done = True
        body = self._raw[len(self._opener) :]
        calls = self._read_body(body[:size], self._toolbox)
        if not calls or any(name not in self._toolbox for name, _ in calls):
            return [NotACall(self._raw)]
        self.rest = body[size_with_closer:]
        events: list[ToolEvent] = []
        for name, arguments in calls:
            events += [CallBegin(name), CallText(arguments), CallEnd(is_cut)]
        return events


def first_closer(closer: str) -> FindEnd:
    """The block ends with the first `closer`."""

    def find(body: str) -> tuple[int, int] | None:
        at = body.find(closer)
        return None if at < 0 else (at, at + len(closer))

    return find
