"""Structured output: the fields that ask for it, as one constraint that the engine enforces.

What cannot be enforced degrades, it never fails: the model is told about it in a system message
and a `Warning` header says so. One exception: a schema with `strict: true` promises conformity, so
one that cannot be enforced is refused. Shared by every protocol.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from stoker.api.body import INLINE_BYTES
from stoker.api.fields import invalid
from stoker.api.state import ApiState
from stoker.core import Constraint, ConstraintKind
from stoker.errors import GrammarError

SWITCHED_OFF = "grammar compilation disabled by STOKER_GRAMMAR=0"
# What a body contains that asks for a constraint, in whichever protocol.
_CONSTRAINING = (
    b'"response_format"',
    b'"guided_',
    b'"structured_outputs"',
    b'"tool_choice"',
    b'"format"',
    b'"output_format"',
)
# vLLM's form of `structured_outputs`: one of these keys instead of a bare schema
_VLLM_KEYS = {"json", "json_object", "regex", "choice", "grammar"}


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request asks its text to look like."""

    field: str  # that asked, for error messages
    told: str  # what the model is told when the wish is not enforced
    constraint: Constraint | None = None
    problem: str = ""  # why there is no constraint
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Structured:
    """What becomes of the wish."""

    constraint: Constraint | None = None  # compiled: the engine can start with it at once
    instruction: str | None = None  # for the model, when nothing is enforced
    warnings: tuple[str, ...] = ()


def read_structured(state: ApiState, body: dict[str, Any]) -> Structured:
    """Compiles what `body` asks for. May take seconds: see `work_bytes`. Raises InvalidRequest for a
    strict schema that cannot be enforced."""
    return settle(state, find_wish(body))


def settle(state: ApiState, wish: Wish | None) -> Structured:
    if wish is None:
        return Structured()
    if state.compile_constraint is None:
        return _degraded(state, wish, SWITCHED_OFF)
    try:
        if wish.constraint is None:
            raise GrammarError(wish.problem)
        state.compile_constraint(wish.constraint)
    except GrammarError as error:
        if wish.strict:
            raise invalid(wish.field, f"{wish.field} cannot be enforced: {error.message}") from None
        return _degraded(state, wish, error.message)
    return Structured(wish.constraint)


def work_bytes(body: bytes) -> int:
    """The size by which `off_loop` decides: a request with a constraint always goes to a worker."""
    asks = any(field in body for field in _CONSTRAINING)
    return max(len(body), INLINE_BYTES + 1) if asks else len(body)


def find_wish(body: dict[str, Any]) -> Wish | None:
    """Precedence: guided_grammar, json_schema, json_object, structured_outputs, guided_json,
    guided_regex, guided_choice."""
    if body.get("guided_grammar") is not None:
        return grammar_wish("guided_grammar", body["guided_grammar"])
    wish = format_wish("response_format", body.get("response_format"))
    if wish is not None:
        return wish
    outputs = body.get("structured_outputs")
    if isinstance(outputs, dict) and len(outputs) == 1 and outputs.keys() <= _VLLM_KEYS:
        return _vllm_wish(outputs)
    if outputs is not None:
        return schema_wish("structured_outputs", outputs)
    if body.get("guided_json") is not None:
        return schema_wish("guided_json", body["guided_json"])
    if body.get("guided_regex") is not None:
        return regex_wish("guided_regex", body["guided_regex"])
    if body.get("guided_choice") is not None:
        return choice_wish("guided_choice", body["guided_choice"])
    return None


def format_wish(field: str, value: Any) -> Wish | None:
    """Of a `response_format`, or of the Responses API's `text.format`, which has no inner
    `json_schema` object."""
    if value is None:
        return None
    kind = value.get("type") if isinstance(value, dict) else None
    match kind:
        case "text":
            return None
        case "json_schema":
            inner = value.get("json_schema", value)
            inner = inner if isinstance(inner, dict) else {}
            return schema_wish(
                f"{field}.json_schema.schema" if "json_schema" in value else f"{field}.schema",
                inner.get("schema"),
                any_whitespace=inner.get("any_whitespace") is not False,
                strict=inner.get("strict") is True,
            )
        case "json_object" if value.get("schema") is not None:  # llama-server's spelling
            return schema_wish(f"{field}.schema", value["schema"])
        case "json_object":
            return Wish(field, _JSON, Constraint("json_object"))
    return Wish(field, _JSON, problem=f"{field} has an unknown type")


def schema_wish(field: str, schema: Any, *, any_whitespace: bool = True, strict: bool = False) -> Wish:
    if isinstance(schema, str):  # guided_json is often sent as text
        schema = _parsed(schema)
    if schema is None:
        return Wish(field, _JSON, problem=f"{field} is missing", strict=strict)
    shown = _show(schema)
    told = f"Answer only with JSON that conforms to this JSON schema, no other text:\n{shown}"
    constraint = Constraint("json_schema", shown, any_whitespace=any_whitespace)
    return Wish(field, told, constraint, strict=strict)


def grammar_wish(field: str, grammar: Any) -> Wish:
    """EBNF or GBNF by its `::=`, else Lark."""
    kind: ConstraintKind = "gbnf" if "::=" in str(grammar) else "lark"
    return _text_wish(field, kind, grammar, "Answer only with text that this grammar accepts")


def regex_wish(field: str, expression: Any) -> Wish:
    told = "Answer only with text that this regular expression matches"
    return _text_wish(field, "regex", expression, told)


def choice_wish(field: str, choices: Any) -> Wish:
    told = f"Answer with exactly one of these, and nothing else:\n{_show(choices)}"
    return Wish(field, told, Constraint("choice", _show(choices)))


def with_instruction(messages: list[dict[str, Any]], instruction: str) -> list[dict[str, Any]]:
    """Normalized messages with `instruction` in front, joined to a leading system message: many templates
    take only one."""
    first = messages[0]
    if first["role"] == "system":
        joined = f"{instruction}\n\n{first['content']}" if first["content"] else instruction
        return [{**first, "content": joined}, *messages[1:]]
    return [{"role": "system", "content": instruction}, *messages]


_JSON = "Answer only with one valid JSON value: no other text and no code fence."


_MAX_TOLD = 16 * 1024  # characters


def _degraded(state: ApiState, wish: Wish, reason: str) -> Structured:
    warning = f"grammar not enforced: {reason} - falling back to prompt injection"
    # What the server adds must not make the prompt too long: at most half the context, were each
    # character a token.
    told = wish.told[: min(_MAX_TOLD, state.text.max_context // 2)]
    return Structured(instruction=told, warnings=(warning,))


def _vllm_wish(outputs: dict[str, Any]) -> Wish:
    ((key, value),) = outputs.items()
    field = f"structured_outputs.{key}"
    match key:
        case "json":
            return schema_wish(field, value)
        case "regex":
            return regex_wish(field, value)
        case "choice":
            return choice_wish(field, value)
        case "grammar":
            return grammar_wish(field, value)
    return Wish(field, _JSON, Constraint("json_object"))


def _text_wish(field: str, kind: ConstraintKind, source: Any, told: str) -> Wish:
    told = f"{told}:\n{_show(source)}"
    if not isinstance(source, str):
        return Wish(field, told, problem=f"{field} must be of type str")
    return Wish(field, told, Constraint(kind, source))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text  # not a schema, as compiling it will say


def _show(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
