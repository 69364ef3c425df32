"""The fields of a response that repeat the request, and the checks that only they need."""

from __future__ import annotations

from typing import Any

from stoker.api.fields import Fields, invalid
from stoker.api.openai.chat.thinking import EFFORTS

Json = dict[str, Any]

_INCLUDABLE = (
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
)
_MAX_PAIRS, _MAX_KEY, _MAX_VALUE = 16, 64, 512  # metadata


def read_include(fields: Fields) -> frozenset[str]:
    """What a reply may add. The known names that concern hosted tools have no effect."""
    include = fields.raw("include")
    if include is None:
        return frozenset()
    if not isinstance(include, list) or not all(isinstance(name, str) for name in include):
        raise invalid("include", "include must be an array of strings")
    for name in include:
        if name not in _INCLUDABLE:
            listed = ", ".join(f"'{known}'" for known in _INCLUDABLE)
            raise invalid("include", f"include must hold only {listed}")
    return frozenset(include)


def read_metadata(fields: Fields) -> dict[str, str]:
    """At most 16 pairs of strings, keys up to 64 characters, values up to 512."""
    nested = fields.nested("metadata")
    metadata = nested.body if nested else {}
    if len(metadata) > _MAX_PAIRS:
        raise invalid("metadata", f"metadata must hold at most {_MAX_PAIRS} pairs")
    for key, value in metadata.items():
        if len(key) > _MAX_KEY:
            raise invalid("metadata", f"keys of metadata must have at most {_MAX_KEY} characters")
        if not isinstance(value, str) or len(value) > _MAX_VALUE:
            raise invalid(
                "metadata", f"values of metadata must be strings of at most {_MAX_VALUE} characters"
            )
    return metadata


def read_format(fields: Fields) -> tuple[Json, Json | None]:
    """`text` as the response repeats it, and the chat request's `response_format`."""
    text = fields.nested("text")
    given = text.nested("format") if text else None
    kind = given.required_one_of("type", ("text", "json_object", "json_schema")) if given else None
    echo: Json = {"format": {"type": kind or "text"}}
    verbosity = text.one_of("verbosity", ("low", "medium", "high")) if text else None
    if verbosity is not None:
        echo["verbosity"] = verbosity
    if given is None or kind in (None, "text"):
        return echo, None
    if kind == "json_object":
        return echo, {"type": "json_object"}
    if given.nested("schema") is None:
        raise invalid("text.format.schema", "text.format.schema must be an object")
    echo["format"] = {
        "type": kind,
        "name": given.string("name") or "output",
        "description": given.string("description"),
        "schema": given.raw("schema"),
        "strict": bool(given.flag("strict")),
    }
    shape = {name: value for name, value in echo["format"].items() if name != "type" and value is not None}
    return echo, {"type": "json_schema", "json_schema": shape}


def read_reasoning(fields: Fields) -> tuple[Json, str | None]:
    """`reasoning` as the response repeats it, and the effort. How it is summarized makes no
    difference: the summary is the thought itself."""
    reasoning = fields.nested("reasoning")
    effort = reasoning.one_of("effort", EFFORTS) if reasoning else None
    summary = reasoning.one_of("summary", ("auto", "concise", "detailed")) if reasoning else None
    return {"effort": effort, "summary": summary}, effort
