"""One call written as a JSON object: {"name": ..., "arguments": {...}} and its relatives.

Arguments stream as they come when the name stands before them; otherwise they wait for it.
"""

from __future__ import annotations

import json
from typing import Any

from stoker.chat.lenient_json import LenientJson, repair_value
from stoker.chat.tools.base import CallBegin, CallEnd, CallText, Toolbox, ToolEvent

_NAME_KEYS = ("name", "tool_name", "function_name", "tool", "function")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "params")
_WRAPPERS = ("function", "tool_call", "function_call")
_OTHER_KEYS = ("id", "type", "tool_call_id", "call_id", "index")
_KNOWN_KEYS = frozenset((*_NAME_KEYS, *_ARGUMENT_KEYS, *_WRAPPERS, *_OTHER_KEYS))


class CallObject:
    """`feed` text from the opening brace on. Afterwards one of `done` and `failed` is set, and `rest`
    holds the text behind the object. Events are made only when the call is one of an offered tool;
    `failed` without `begun` means that no event was made."""

    def __init__(self, toolbox: Toolbox, terminator: str = "") -> None:
        self._toolbox = toolbox
        self._json = LenientJson(terminator=terminator)
        self._level = 1  # depth at which the call's own keys stand
        self._depth = 0
        self._in_string = self._escaped = False
        self._key: str | None = None
        self._text: list[str] = []  # of the key or value being read
        self._found: dict[str, str] = {}  # key -> JSON text of its value
        self._streaming = False
        self.begun = False
        self.done = False
        self.failed = False
        self.rest = ""

    def feed(self, text: str) -> list[ToolEvent]:
        return self._read(self._json.feed(text), ended=False)

    def finish(self) -> list[ToolEvent]:
        return self._read(self._json.finish(), ended=True)

    def _read(self, text: str, *, ended: bool) -> list[ToolEvent]:
        events: list[ToolEvent] = []
        streamed: list[str] = []
        for char in text:
            self._char(char, events, streamed)
            if self.failed:
                return events
        if self._json.failed and self.begun:  # what is out already must become JSON
            for char in self._json.finish():
                self._char(char, events, streamed)
        if streamed:
            events.append(CallText("".join(streamed)))
        if self._json.done or self._json.failed or ended:
            self.rest = self._json.rest
            self._end(events)
        return events

    def _end(self, events: list[ToolEvent]) -> None:
        is_cut = not self._json.done
        if not self.begun:
            call = None if self._json.failed else self._whole()
            if call is None:
                self.failed = True
                return
            self.begun = True
            events += [CallBegin(call[0]), CallText(call[1])]
        self.done = True
        events.append(CallEnd(is_cut))

    def _char(self, char: str, events: list[ToolEvent], streamed: list[str]) -> None:
        """One character of valid JSON."""
        if self._streaming:
            streamed.append(char)
        elif self._depth >= self._level:
            self._text.append(char)
        if self._in_string:
            self._string_char(char)
            return
        if char == '"':
            self._in_string = True
        elif char in "{[":
            self._open(char, events, streamed)
        elif char in "}]":
            self._close()
        elif char == ":" and self._depth == self._level and self._key is None:
            self._take_key(events)
        elif char == "," and self._depth == self._level:
            self._text.pop()
            self._take_value()

    def _string_char(self, char: str) -> None:
        if self._escaped:
            self._escaped = False
        elif char == "\\":
            self._escaped = True
        elif char == '"':
            self._in_string = False

    def _take_key(self, events: list[ToolEvent]) -> None:
        self._text.pop()
        self._key = json.loads("".join(self._text))
        self._text.clear()
        if not self._found and self._key not in _KNOWN_KEYS:
            self.failed = True  # an object, but not a call

    def _open(self, char: str, events: list[ToolEvent], streamed: list[str]) -> None:
        self._depth += 1
        if self._depth != self._level + 1:
            return
        if char == "{" and self._key in _WRAPPERS and not self._name():
            self._level += 1
            self._key = None
            self._text.clear()
        elif char == "{" and self._key in _ARGUMENT_KEYS and not self.begun and (name := self._name()):
            if name not in self._toolbox:
                self.failed = True
                return
            self.begun = self._streaming = True
            self._text.clear()
            streamed.append(char)
            events.append(CallBegin(name))

    def _close(self) -> None:
        self._depth -= 1
        if self._depth == self._level and self._streaming:
            self._streaming = False
            self._key = None
            self._text.clear()
        elif self._depth == self._level - 1:
            self._text = self._text[:-1]
            self._take_value()
            self._level = max(1, self._level - 1)

    def _take_value(self) -> None:
        if self._key is not None:
            self._found[self._key] = "".join(self._text).strip()
        self._key = None
        self._text.clear()

    # --- a call that could not be streamed ----------------------------------------------------------

    def _name(self) -> str | None:
        for key in _NAME_KEYS:
            value = _load(self._found.get(key))
            if isinstance(value, str):
                return value
        return None

    def _whole(self) -> tuple[str, str] | None:
        """Name and arguments from everything that was found."""
        name = self._name()
        text = next((self._found[key] for key in _ARGUMENT_KEYS if key in self._found), None)
        if text is None:
            text = self._loose_arguments(name)
        arguments = as_object(text)
        if arguments is None:
            return None
        if name is None:
            lifted = _lift(arguments)
            if lifted is None:
                return None
            name, arguments = lifted
        return (name, arguments) if name in self._toolbox else None

    def _loose_arguments(self, name: str | None) -> str | None:
        """Arguments that stand beside the name, when they are all the tool's own."""
        loose = {key: value for key, value in self._found.items() if key not in _KNOWN_KEYS}
        if not loose:
            return "{}"
        if name is None or not loose.keys() <= self._toolbox.properties(name).keys():
            return None
        pairs = (f"{json.dumps(key, ensure_ascii=False)}: {value}" for key, value in loose.items())
        return "{" + ", ".join(pairs) + "}"


def as_object(text: str | None) -> str | None:
    """The JSON text of an object from the text of an object, of a string that holds one, or null."""
    value = _load(text)
    if isinstance(value, dict):
        return text
    if value is None and text is not None:
        return "{}" if text == "null" else None
    if isinstance(value, str):
        if not value.strip():
            return "{}"
        inner = repair_value(value)
        return inner if isinstance(_load(inner), dict) else None
    return None


def _lift(arguments: str) -> tuple[str, str] | None:
    """The envelope that was put inside `arguments` by mistake."""
    table = _load(arguments)
    if not isinstance(table, dict):
        return None
    key = next((key for key in _NAME_KEYS if isinstance(table.get(key), str)), None)
    if key is None:
        return None
    name = table.pop(key)
    inner = next((table[k] for k in _ARGUMENT_KEYS if isinstance(table.get(k), dict)), table)
    return name, json.dumps(inner, ensure_ascii=False)


def _load(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
