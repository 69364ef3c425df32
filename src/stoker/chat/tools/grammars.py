"""Pieces of the grammars (llguidance's Lark) that say how a family writes the calls of given tools.

A grammar accepts at least one call; `Vocabulary` says which markup is a special token, because such a
token is named by its id there and everything else is text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.values import schema_types


@dataclass(frozen=True, slots=True)
class Markup:
    """How a family's markup appears to the grammar."""

    special_ids: Mapping[str, int] = field(default_factory=dict)

    def text(self, *parts: str) -> str:
        """A Lark sequence for texts and markup in order."""
        return " ".join(
            f"<[{self.special_ids[part]}]>" if part in self.special_ids else _literal(part)
            for part in parts
            if part
        )


# A small model that must call does not always know when to stop.
MAX_CALLS = 8
# Spaces as in the JSON of chat templates, and nowhere else.
_JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
# With one of these the list of properties is not all there is to an object.
_OPEN_KEYS = {"additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if"}

GrammarMaker = Callable[[Sequence[OfferedTool], bool, Markup], str]


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def element_calls(
    tools: Sequence[OfferedTool],
    parallel: bool,
    *,
    open: Callable[[str], str],
    value: Callable[[str], tuple[str, str]],
    close: str,
    between: str = "",
    before: str = "",
    after: str = "",
    plain: Callable[[str], tuple[str, str]] | None = None,
) -> str:
    """Every argument an element. `value` gives the text before and behind a string, `plain` (the same
    unless given) of other JSON. Optional parameters may be left out; the order is the schema's."""
    calls: list[str] = []
    rules: list[str] = []
    for number, tool in enumerate(tools):
        schema = schema_of(tool)
        required = schema.get("required")
        required = required if isinstance(required, list) else []
        parts: list[str] = []
        for place, (key, kind) in enumerate(_properties(schema).items()):
            rule = f"value_{number}_{place}"
            is_text = "string" in schema_types(kind) <= {"string", "null"} and not _enumerated(kind)
            head, tail = (value if is_text or plain is None else plain)(key)
            # A string runs to the first occurrence of what ends it; other values are JSON.
            typed = _plain(kind, {name: schema[name] for name in ("$defs", "definitions") if name in schema})
            body = f"{rule}[suffix={_literal(tail)}]: /(?s:.*)/" if is_text else f"{rule}: {typed}"
            element = f"{_literal(head)} {rule}" + ("" if is_text else f" {_literal(tail)}")
            parts.append(element if key in required else f"({element})?")
            rules.append(body)
        calls.append(" ".join([open(tool.name), *parts, close]))
    return envelope(calls, parallel, before=before, between=between, after=after, rules=rules)


def bare_key_calls(
    tools: Sequence[OfferedTool],
    parallel: bool,
    markup: Markup,
    *,
    open: Sequence[str],
    close: Sequence[str],
    quote: str,
) -> str:
    """Gemma's objects: bare keys in the schema's order, strings between sentinels. Values inside
    objects and arrays are free in shape."""
    mark = markup.text(quote)
    text = f"{mark} /(?s:[^<]*)/ {mark}"
    rules = [
        f"text: {text}",
        "number: /-?(0|[1-9][0-9]*)(\\.[0-9]+)?/",
        'word: "true" | "false"',
        'list: "[" (any ("," any)*)? "]"',
        'object: "{" (key ":" any ("," key ":" any)*)? "}"',
        "key: /[A-Za-z_][A-Za-z0-9_]*/",
        'any: text | number | word | "null" | list | object',
    ]
    kinds = {"string": "text", "boolean": "word", "array": "list", "object": "object"}
    kinds |= {"number": "number", "integer": "/-?(0|[1-9][0-9]*)/", "null": '"null"'}
    calls: list[str] = []
    for tool in tools:
        schema = schema_of(tool)
        required = schema.get("required")
        required = required if isinstance(required, list) else []
        pairs: list[tuple[bool, str]] = []
        for key, kind in _properties(schema).items():
            values = _enumerated(kind)
            if values and all(isinstance(value, str) for value in values):
                value = "(" + " | ".join(f"{mark} {_literal(value)} {mark}" for value in values) + ")"
            else:
                types = sorted(schema_types(kind)) or ["any"]
                value = "(" + " | ".join(kinds.get(name, "any") for name in types) + ")"
            pairs.append((key in required, f"{_literal(key + ':')} {value}"))
        calls.append(f"{markup.text(*open, tool.name + '{')} {_comma_list(pairs)} {markup.text('}', *close)}")
    return envelope(calls, parallel, rules=rules)


def _comma_list(pairs: list[tuple[bool, str]]) -> str:
    """Pairs with commas between those that are there: required ones first, then the optional ones."""
    ordered = [pair for needed, pair in pairs if needed]
    optional = [pair for needed, pair in pairs if not needed]
    joined = ' "," '.join(ordered)
    if ordered:
        return " ".join([joined, *(f'("," {pair})?' for pair in optional)])
    if not optional:
        return ""
    # Without a required one, any of the optional ones may be the first.
    starts = [
        " ".join([first, *(f'("," {pair})?' for pair in optional[place + 1 :])])
        for place, first in enumerate(optional)
    ]
    return "(" + " | ".join(starts) + ")?"


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _enumerated(schema: Any) -> list[Any]:
    if not isinstance(schema, dict):
        return []
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return values if isinstance(values, list) else []


def _plain(schema: Any, definitions: dict[str, Any]) -> str:
    """The text form of a value that is no free string: enumerated strings stand without quotes.
    `definitions` are those of the whole schema, which this part may refer to."""
    values = _enumerated(schema)
    if values and all(isinstance(value, str) for value in values):
        return " | ".join(_literal(value) for value in values)
    return json_text({**definitions, **schema} if isinstance(schema, dict) else schema)


def schema_of(tool: OfferedTool) -> dict[str, Any]:
    """The tool's schema, of an object in any case. A tool without parameters takes none, and where a
    schema lists properties and says nothing of others, the model is not to invent any."""
    if not tool.parameters:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    schema = {"type": "object", **tool.parameters}
    if "properties" in schema and not schema.keys() & _OPEN_KEYS:
        schema["additionalProperties"] = False
    return schema


def json_text(schema: Any) -> str:
    styled = {**schema, "x-guidance": _JSON_STYLE} if isinstance(schema, dict) else schema
    return "%json " + json.dumps(styled, ensure_ascii=True)


def envelope(
    calls: Iterable[str],
    parallel: bool,
    *,
    before: str = "",
    between: str = "",
    after: str = "",
    rules: Iterable[str] = (),
) -> str:
    """`before`, calls with `between` between them, `after`; only one call unless `parallel`."""
    names: list[str] = []
    lines: list[str] = []
    for number, call in enumerate(calls):
        names.append(f"call_{number}")
        lines.append(f"call_{number}: {call}")
    repeat = f"({between} call){{0,{MAX_CALLS - 1}}}" if parallel else ""
    start = " ".join(part for part in (before, "call", repeat, after) if part)
    return "\n".join([f"start: {start}", f"call: {' | '.join(names)}", *lines, *rules]) + "\n"


def json_calls(
    tools: Sequence[OfferedTool],
    parallel: bool,
    markup: Markup,
    *,
    open: Sequence[str] = (),
    close: Sequence[str] = (),
    between: Sequence[str] = (),
    before: Sequence[str] = (),
    after: Sequence[str] = (),
    key: str = "arguments",
    name_key: str = "name",
) -> str:
    """{"name": ..., "arguments": ...} between `open` and `close`."""
    return envelope(
        (
            " ".join(
                part
                for part in (
                    markup.text(*open, f'{{"{name_key}": {json.dumps(tool.name)}, "{key}": '),
                    json_text(schema_of(tool)),
                    markup.text("}", *close),
                )
                if part
            )
            for tool in tools
        ),
        parallel,
        before=markup.text(*before),
        between=markup.text(*between),
        after=markup.text(*after),
    )


def headed_calls(
    tools: Sequence[OfferedTool],
    parallel: bool,
    markup: Markup,
    *,
    head: Callable[[str], Sequence[str]],
    tail: Sequence[str] = (),
    before: Sequence[str] = (),
    between: Sequence[str] = (),
    after: Sequence[str] = (),
) -> str:
    """A header made from the name, then the arguments."""
    return envelope(
        (
            f"{markup.text(*head(tool.name))} {json_text(schema_of(tool))} {markup.text(*tail)}".rstrip()
            for tool in tools
        ),
        parallel,
        before=markup.text(*before),
        between=markup.text(*between),
        after=markup.text(*after),
    )
