"""Bounds of numbers, exclusive and inclusive, against decimal arithmetic."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import combinations

import pytest
from tests.engine.grammar.texts import END, allowed, byte_vocabulary, follow

from stoker.core import Constraint
from stoker.engine.grammar import GrammarCompiler
from stoker.engine.grammar.bounds import move_bounds

BOUNDS = ["-1.25", "-1", "-0.5", "0", "0.25", "1", "1.5"]
TEXTS = [
    *("0", "-0", "0.0", "1", "-1", "1.0", "1.5", "-1.5", "0.5", "-0.5", "0.50", "0.25", "-0.25", "2"),
    *("-1.25", "1.25", "0.001", "-0.001", "1.001", "-1.001", "0.999", "0.251", "-2"),
]


@pytest.mark.parametrize("low_key", ["minimum", "exclusiveMinimum"])
@pytest.mark.parametrize("high_key", ["maximum", "exclusiveMaximum"])
def test_nothing_outside_is_allowed(low_key: str, high_key: str) -> None:
    grammars = GrammarCompiler(byte_vocabulary)
    for low, high in combinations(BOUNDS, 2):
        schema = {"type": "number", low_key: float(low), high_key: float(high)}
        constraint = Constraint("json_schema", json.dumps(schema))
        for text in TEXTS:
            value = Decimal(text)
            inside = Decimal(low) < value < Decimal(high)
            inside |= low_key == "minimum" and value == Decimal(low)
            inside |= high_key == "maximum" and value == Decimal(high)
            matcher = grammars.matcher(constraint, [END])
            taken = follow(matcher, text.encode()) and (matcher.is_complete or END in allowed(matcher))
            # Not the other way round: there may be only one spelling of a number.
            assert inside or not taken, (schema, text)
        assert follow(grammars.matcher(constraint, [END]), [ord("-") if low.startswith("-") else ord(low[0])])


def test_only_keywords_are_moved() -> None:
    values = {"exclusiveMinimum": 0, "maximum": 0.5}
    schema = {
        "properties": {"exclusiveMinimum": {"const": dict(values)}, "const": dict(values)},
        "enum": [dict(values)],
        "allOf": [{"type": "integer", "exclusiveMaximum": 3}, {"exclusiveMaximum": 3.5}],
        "minimum": 2,
        "exclusiveMinimum": True,
    }
    move_bounds(schema)
    assert schema == {
        "properties": {
            "exclusiveMinimum": {"const": values},
            "const": {"exclusiveMinimum": 1e-9, "maximum": 0.5},
        },
        "enum": [values],
        "allOf": [{"type": "integer", "exclusiveMaximum": 3}, {"exclusiveMaximum": 3.5}],
        "minimum": 2 + 1e-9,
        "exclusiveMinimum": True,
    }
