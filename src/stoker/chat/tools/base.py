"""What a tool-call format consists of, and the events its parser makes of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.grammars import GrammarMaker


class CallBegin(NamedTuple):
    name: str


class CallText(NamedTuple):
    """JSON text of the arguments, to append."""

    text: str


class CallEnd(NamedTuple):
    is_cut: bool = False  # the text ended before the call did


class NotACall(NamedTuple):
    """Text that looked like markup: it goes back to where it came from."""

    text: str


ToolEvent = CallBegin | CallText | CallEnd | NotACall


class Toolbox:
    """The offered tools by name."""

    def __init__(self, tools: Sequence[OfferedTool]) -> None:
        self._schemas = {tool.name: tool.parameters for tool in tools}

    def __contains__(self, name: object) -> bool:
        return name in self._schemas

    def may_become(self, text: str) -> bool:
        """Whether some tool's name begins with `text`."""
        return any(name.startswith(text) for name in self._schemas)

    def schema(self, name: str) -> dict[str, Any]:
        return self._schemas.get(name, {})

    def properties(self, name: str) -> dict[str, Any]:
        found = self.schema(name).get("properties")
        return found if isinstance(found, dict) else {}


class CallParser(Protocol):
    """Reads one stretch of markup. The first `feed` begins with the format's marker.

    `finish` is called when the text ends inside the markup. Once `done`, `rest` is the text behind it.
    Where nothing was recognized, the one event is a NotACall with all the text and `done` is set.
    """

    done: bool
    rest: str

    def feed(self, text: str) -> list[ToolEvent]: ...
    def finish(self) -> list[ToolEvent]: ...


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """One family's way of writing calls."""

    name: str
    markers: tuple[str, ...]  # markup begins with one of these
    make_parser: Callable[[Toolbox], CallParser]
    matches: Callable[[str], bool]  # whether a chat template is of this family
    # Of offered tools, whether several calls are allowed, and how markup is spelled in the vocabulary:
    # a Lark grammar that accepts at least one call.
    grammar: GrammarMaker
    tokens: tuple[str, ...] = ()  # further markup that may be special tokens of the vocabulary
    bare_json: bool = False  # a reply that is nothing but the call's JSON counts as a call


def whole_call(name: str, arguments: str) -> list[ToolEvent]:
    return [CallBegin(name), CallText(arguments), CallEnd()]
