"""Argument values that arrive as plain text, typed by the tool's JSON schema."""

from __future__ import annotations

import json
from typing import Any

from stoker.chat.lenient_json import repair_value


def typed_value(text: str, schema: Any) -> Any:
    """A parameter that can only be text (or null) stays text; anything else is JSON where it parses,
    the text as it is where it does not."""
    types = schema_types(schema)
    if types and types <= {"string", "null"}:
        return None if text.strip() == "null" and "null" in types else text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _python_like(text, types)
    if "string" in types and not _fits(value, types):
        return text
    return value


def schema_types(schema: Any) -> set[str]:
    """The JSON types a schema allows, as far as it says; empty = any."""
    if not isinstance(schema, dict):
        return set()
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return {item for item in kind if isinstance(item, str)}
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        if isinstance(options, list):
            found = [schema_types(option) for option in options]
            return set().union(*found) if all(found) else set()
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list) and values and all(isinstance(value, str) for value in values):
        return {"string"}
    return set()


def dump_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _python_like(text: str, types: set[str]) -> Any:
    words: dict[str, Any] = {"True": True, "False": False, "None": None}
    if text.strip() in words:
        return words[text.strip()]
    if text.lstrip()[:1] in ("{", "[") and types & {"object", "array"}:
        repaired = repair_value(text)
        if repaired is not None:
            return json.loads(repaired)
    return text


def _fits(value: Any, types: set[str]) -> bool:
    if value is None:
        return "null" in types
    if isinstance(value, bool):
        return "boolean" in types
    if isinstance(value, int):
        return bool(types & {"integer", "number"})
    if isinstance(value, float):
        return "number" in types
    if isinstance(value, str):
        return "string" in types
    return ("array" if isinstance(value, list) else "object") in types
