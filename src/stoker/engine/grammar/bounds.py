"""Exclusive bounds of numbers, moved by a billionth where llguidance forgets that they are exclusive.

With bounds less than one apart, as in 0 < x <= 0.5, it allows the whole number at the exclusive one. It
also merges bounds from behind references and allOf, so all are moved, whatever else is known here.
"""

from __future__ import annotations

from typing import Any

_STEP = 1e-9
_LARGEST = 1e6  # beyond it the step is lost in float64
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_VALUES = ("const", "enum", "default", "examples")


def move_bounds(schema: dict[str, Any]) -> None:
    """Changes `schema` itself. A loop, as schemas nest deeper than Python does."""
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        if not isinstance(node, dict):
            continue
        for key, value in node.items():
            if key in _SCHEMAS_BY_NAME and isinstance(value, dict):
                waiting += value.values()  # whose keys are names, not keywords
            elif key not in _VALUES:
                waiting.append(value)
        if node.get("type") != "integer":
            _move(node, "exclusiveMinimum", "minimum", _STEP)
            _move(node, "exclusiveMaximum", "maximum", -_STEP)


def _move(schema: dict[str, Any], exclusive: str, inclusive: str, step: float) -> None:
    """Draft 4 has a number under the inclusive keyword and `true` under the exclusive one."""
    place = inclusive if schema.get(exclusive) is True else exclusive
    bound = schema.get(place)
    if not isinstance(bound, int | float) or isinstance(bound, bool):
        return
    if abs(bound) < _LARGEST and float(bound).is_integer():
        schema[place] = bound + step
