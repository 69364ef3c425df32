"""Structured output while no grammar engine is there: the contract's degrade path.

The request is answered without the constraint, the model is told about it in a system message, and
a `Warning` header says so. Never an error.
"""

from __future__ import annotations

import json
from typing import Any

REASON = "structured output is not available in this version"


def read_constraint(body: dict[str, Any]) -> str | None:
    """What the model should be told, or None when the request asks for no constraint.

    Precedence: guided_grammar, json_schema, json_object, structured_outputs, guided_regex,
    guided_choice.
    """
    response_format = body.get("response_format")
    kind = response_format.get("type") if isinstance(response_format, dict) else None
    if body.get("guided_grammar") is not None:
        return f"Answer only with text that this grammar accepts:\n{_show(body['guided_grammar'])}"
    if isinstance(response_format, dict) and kind == "json_schema":
        outer = response_format.get("json_schema")
        schema = outer.get("schema") if isinstance(outer, dict) else None
        return _json_sentence(schema)
    if response_format is not None and kind != "text":
        return _json_sentence(None)
    if body.get("structured_outputs") is not None:
        return _json_sentence(body["structured_outputs"])
    if body.get("guided_regex") is not None:
        return f"Answer only with text that this regular expression matches:\n{_show(body['guided_regex'])}"
    if body.get("guided_choice") is not None:
        return f"Answer with exactly one of these, and nothing else:\n{_show(body['guided_choice'])}"
    return None


def warning(reason: str = REASON) -> str:
    """The value of the Warning header."""
    return f"grammar not enforced: {reason} - falling back to prompt injection"


def with_instruction(messages: list[dict[str, Any]], instruction: str) -> list[dict[str, Any]]:
    """Normalized messages with `instruction` in front, joined to a leading system message: many templates
    take only one."""
    first = messages[0]
    if first["role"] == "system":
        joined = f"{instruction}\n\n{first['content']}" if first["content"] else instruction
        return [{**first, "content": joined}, *messages[1:]]
    return [{"role": "system", "content": instruction}, *messages]


def _json_sentence(schema: Any) -> str:
    if schema is None:
        return "Answer only with one valid JSON value: no other text and no code fence."
    return f"Answer only with JSON that conforms to this JSON schema, no other text:\n{_show(schema)}"


def _show(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
