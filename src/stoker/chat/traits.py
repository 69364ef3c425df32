"""What a chat template takes: found out by rendering small conversations with marked words.

Templates differ in whether they know system turns, late system turns, tool calls and their
spellings, and they say so only by raising or by leaving text out. Acting on the findings is
`shaping.py`'s work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from stoker.errors import InvalidRequest

Message = dict[str, Any]


class EmptyContent(Enum):
    """How an assistant turn that only calls tools spells its missing text."""

    EMPTY_STRING = "empty string"
    LEFT_OUT = "no content key"
    NULL = "null"  # older DeepSeek templates look for exactly this


@dataclass(frozen=True, slots=True)
class TemplateTraits:
    """Findings about one template. False means: refused, or silently left out."""

    text_as_parts: bool  # text arrives only as [{"type": "text", "text": ...}]
    leading_system: bool
    late_system: bool  # kept where it stands, behind earlier turns
    tools: bool  # the offered tools reach the prompt (asked only with tools)
    tool_calls: bool
    short_call_ids: bool  # ids of calls must be nine letters and digits
    names_in_ids: bool  # of a call, only the id is written: it has to carry the function's name
    tool_results: bool
    object_arguments: bool  # function.arguments as a mapping; otherwise as JSON text
    text_arguments: bool  # arguments that are not JSON may stay plain text
    empty_content: EmptyContent
    turn_end: str  # what follows an assistant's text when the turn is closed, "" if unknown


class Render(Protocol):
    def __call__(
        self, messages: Sequence[Mapping[str, Any]], tools: Any = ..., add_generation_prompt: bool = ...
    ) -> str: ...


# Words no template contains, without characters that trimming, casing or JSON would change.
_USER, _REPLY, _SYSTEM, _LATE = "stokeruser", "stokerreply", "stokersystem", "stokerlate"
_CALL, _KEY, _VALUE, _RESULT = "stokercall", "stokerkey", "stokervalue", "stokerresult"
_CALL_ID = "stokercid"  # nine letters: Mistral's templates insist
_LONG_ID = "call_0123456789abcdef01234567"
_TOOL = {
    "type": "function",
    "function": {
        "name": "stokertool",
        "description": "probe",
        "parameters": {"type": "object", "properties": {}, "required": []},
    },
}


def probe_traits(render: Render, with_tools: bool) -> TemplateTraits:
    """Renders up to about twenty conversations of two to five short turns."""
    return _Probe(render, [_TOOL] if with_tools else None).run()


class _Probe:
    def __init__(self, render: Render, tools: list[dict[str, Any]] | None) -> None:
        self._render = render
        self._tools = tools
        self._text_as_parts = False

    def run(self) -> TemplateTraits:
        user = {"role": "user", "content": _USER}
        reply = {"role": "assistant", "content": _REPLY}
        if _USER not in self._try([user]):
            self._text_as_parts = True
            self._text_as_parts = _USER in self._try([user])
        leading = _SYSTEM in self._try([{"role": "system", "content": _SYSTEM}, user])
        head = [{"role": "system", "content": _SYSTEM}] if leading else []
        late = self._try([*head, user, reply, {"role": "system", "content": _LATE}, user])
        # A template that gathers all system turns at the top would change every token behind them.
        late_in_place = 0 <= late.find(_REPLY) < late.find(_LATE)
        object_arguments, empty, calls = self._tool_calls()
        text_call = _call_turn("stokertext", empty)
        result = [
            user,
            _call_turn({_KEY: _VALUE} if object_arguments else _json_text(), empty),
            _result_turn(),
        ]
        closed = self._try([user, reply], add_generation_prompt=False)
        return TemplateTraits(
            text_as_parts=self._text_as_parts,
            leading_system=leading,
            late_system=late_in_place,
            tools=self._tools is None or "stokertool" in self._try([user]),
            tool_calls=calls,
            short_call_ids=calls and not self._takes_long_ids(object_arguments, empty),
            names_in_ids=calls and self._shows_only_ids(object_arguments, empty),
            tool_results=_RESULT in self._try(result),
            object_arguments=object_arguments,
            text_arguments="stokertext" in self._try([user, text_call]),
            empty_content=empty,
            turn_end=closed.rpartition(_REPLY)[2] if _REPLY in closed else "",
        )

    def _tool_calls(self) -> tuple[bool, EmptyContent, bool]:
        """Whether arguments go in as a mapping, the spelling of empty content, and whether tool
        calls reach the prompt at all."""
        user = {"role": "user", "content": _USER}
        for tail in ([_result_turn()], []):
            for as_object in (True, False):
                arguments: object = {_KEY: _VALUE} if as_object else _json_text()
                for empty in EmptyContent:
                    text = self._try([user, _call_turn(arguments, empty), *tail])
                    python_repr = f"{{'{_KEY}'" in text
                    named = _CALL in text or (not tail and _CALL_ID in text)
                    if named and _VALUE in text and "None" not in text and not python_repr:
                        return as_object, empty, True
        return True, EmptyContent.EMPTY_STRING, False

    def _takes_long_ids(self, as_object: bool, empty: EmptyContent) -> bool:
        call = _call_turn({_KEY: _VALUE} if as_object else _json_text(), empty)
        call["tool_calls"][0]["id"] = _LONG_ID
        result = {**_result_turn(), "tool_call_id": _LONG_ID}
        user = {"role": "user", "content": _USER}
        return any(_VALUE in self._try([user, call, *tail]) for tail in ([result], []))

    def _shows_only_ids(self, as_object: bool, empty: EmptyContent) -> bool:
        call = _call_turn({_KEY: _VALUE} if as_object else _json_text(), empty)
        text = self._try([{"role": "user", "content": _USER}, call])
        return _CALL_ID in text and _CALL not in text

    def _try(self, messages: list[Message], add_generation_prompt: bool = True) -> str:
        """The rendered text, or "" when the template refuses."""
        if self._text_as_parts:
            messages = [as_parts(message) for message in messages]
        try:
            return self._render(messages, tools=self._tools, add_generation_prompt=add_generation_prompt)
        except InvalidRequest:
            return ""


def as_parts(message: Message) -> Message:
    """The message with its text as a list of one part."""
    content = message.get("content")
    if not isinstance(content, str):
        return message
    return {**message, "content": [{"type": "text", "text": content}] if content else []}


def with_empty_content(message: Message, spelling: EmptyContent) -> Message:
    """The message without text, spelled as the template wants it."""
    rest = {key: value for key, value in message.items() if key != "content"}
    match spelling:
        case EmptyContent.EMPTY_STRING:
            return {**rest, "content": ""}
        case EmptyContent.LEFT_OUT:
            return rest
        case EmptyContent.NULL:
            return {**rest, "content": None}


def _json_text() -> str:
    return f'{{"{_KEY}": "{_VALUE}"}}'


def _call_turn(arguments: object, empty: EmptyContent) -> Message:
    call = {"id": _CALL_ID, "type": "function", "function": {"name": _CALL, "arguments": arguments}}
    return with_empty_content({"role": "assistant", "tool_calls": [call]}, empty)


def _result_turn() -> Message:
    return {"role": "tool", "tool_call_id": _CALL_ID, "name": _CALL, "content": _RESULT}
