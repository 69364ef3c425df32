"""A constraint in the form llguidance compiles: one function per kind."""

from __future__ import annotations

import json
from typing import Any

from llguidance import LLMatcher

from stoker.core import Constraint
from stoker.engine.grammar.bounds import move_bounds
from stoker.engine.grammar.budget import check_gbnf, check_lark, check_regex, check_schema
from stoker.engine.grammar.gbnf import gbnf_to_lark
from stoker.engine.grammar.regex import without_anchors
from stoker.errors import GrammarError

# Between JSON tokens at most one of: a space, or a line break and its indentation. Unlimited
# space is where small models get lost: they would fill the reply with it.
WHITESPACE = r"[ ]|\n[ ]{0,40}|\n\t{0,10}"


def grammar_source(constraint: Constraint) -> str:
    """Raises GrammarError."""
    source = constraint.source
    match constraint.kind:
        case "json_schema":
            return _json(_load(source), constraint.any_whitespace)
        case "json_object":
            return _json({"type": "object"}, constraint.any_whitespace)
        case "regex":
            check_regex(source)
            return LLMatcher.grammar_from_regex(without_anchors(source))
        case "choice":
            return LLMatcher.grammar_from_lark(_choice(_load(source)))
        case "lark":
            return _lark(source)
        case "gbnf":
            check_gbnf(source)
            return _lark(gbnf_to_lark(source))


def _load(source: str) -> Any:
    try:
        return json.loads(source)
    except (ValueError, RecursionError):
        raise GrammarError("its source is not JSON") from None


def _lark(source: str) -> str:
    check_lark(source)
    return LLMatcher.grammar_from_lark(source)


def _json(schema: Any, any_whitespace: bool) -> str:
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise GrammarError("a JSON schema must be an object" if schema is not False else "it allows nothing")
    check_schema(schema)
    # llguidance takes its own options from this key; ours are the server's choice.
    schema = {key: value for key, value in schema.items() if key != "x-guidance"}
    move_bounds(schema)
    options: dict[str, Any] = {"whitespace_flexible": False}
    if any_whitespace:
        options = {"whitespace_flexible": True, "whitespace_pattern": WHITESPACE}
    try:
        return LLMatcher.grammar_from_json_schema(schema, overrides=options)  # type: ignore[arg-type]
    except ValueError as error:
        raise GrammarError(str(error)) from None


def _choice(choices: Any) -> str:
    """One terminal of all choices, so that they compete as whole texts."""
    if not isinstance(choices, list) or not choices or not all(isinstance(c, str) for c in choices):
        raise GrammarError("choices must be a non-empty array of strings")
    return f"start: CHOICE\nCHOICE: {' | '.join(json.dumps(choice) for choice in choices)}"
