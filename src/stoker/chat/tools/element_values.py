"""An argument's value between its tags, to JSON: strings as they come, anything else when it is whole."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Any, Protocol

from stoker.chat.tools.element_tags import Framing
from stoker.chat.tools.values import dump_value, schema_types, typed_value

# An entity that may still go on; as long as an entity can be.
_OPEN_ENTITY = re.compile(r"&[^\t\n\f <&;]{0,32}$")


class Unframe(Protocol):
    """Takes a family's framing off a value, piece by piece."""

    def feed(self, text: str) -> str: ...
    def literal(self, text: str) -> str:
        """Text of a CDATA section."""
        ...

    def finish(self, *, closed: bool) -> str:
        """The rest. Not `closed`: what ended the value was the next argument, on a line of its own."""
        ...


class Exact:
    def __init__(self, *, lines: bool = False) -> None:
        self._lines = lines
        self._at_start = lines
        self._held = ""

    def feed(self, text: str) -> str:
        text = self._held + text
        if self._at_start:
            if text in ("", "\r"):
                self._held = text
                return ""
            self._at_start = False
            text = text.removeprefix("\r\n") if text[0] == "\r" else text.removeprefix("\n")
        # The last line break may be the frame's.
        self._held = text[-1:] if text.endswith("\n") else ""
        return text[: len(text) - len(self._held)]

    def literal(self, text: str) -> str:
        return self.feed(text)

    def finish(self, *, closed: bool) -> str:
        return "" if self._held == "\n" and (self._lines or not closed) else self._held


class Xml:
    """Entities are resolved; space around CDATA sections means nothing."""

    def __init__(self) -> None:
        self._held = ""
        self._space: str | None = ""  # since the last section, as long as there is nothing else
        self._has_sections = False

    def feed(self, text: str) -> str:
        if self._space is not None:
            self._space += text
            if not self._space.strip():
                return ""
            text, self._space = self._space, None
        text = self._held + text
        open_entity = _OPEN_ENTITY.search(text)
        end = open_entity.start() if open_entity else len(text)
        self._held = text[end:]
        return html.unescape(text[:end])

    def literal(self, text: str) -> str:
        before = self._outside()
        self._space = ""
        self._has_sections = True
        return before + text

    def finish(self, *, closed: bool) -> str:
        return ("" if self._has_sections else self._space or "") + self._outside()

    def _outside(self) -> str:
        held, self._held = self._held, ""
        return html.unescape(held)


def unframe(framing: Framing) -> Unframe:
    return Xml() if framing is Framing.XML else Exact(lines=framing is Framing.LINES)


class ValueWriter:
    """JSON text of one value from its plain text, typed by the parameter's schema."""

    def __init__(self, schema: Any, *, is_text: bool) -> None:
        types = schema_types(schema)
        self._schema = schema
        self._read: Callable[[str], Any] = str if is_text else self._typed
        self._streams = is_text or (bool(types) and types <= {"string", "null"})
        # A string that may be null is undecided as long as it may still be that word.
        self._decided = is_text or types == {"string"}
        self._held = ""
        self._open = False

    def feed(self, text: str) -> str:
        if not self._open:
            self._held += text
            if not self._streams or not (self._decided or self._is_no_null()):
                return ""
            self._open = True
            text, self._held = self._held, ""
            return '"' + _escaped(text)
        return _escaped(text)

    def finish(self) -> str:
        return '"' if self._open else dump_value(self._read(self._held))

    def _is_no_null(self) -> bool:
        return not "null".startswith(self._held.strip())

    def _typed(self, text: str) -> Any:
        return typed_value(text, self._schema)


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
