"""Typed reading of a request's fields, with the error messages of the wire contract.

`null` counts as unset everywhere. Python's bool is not an int here, and no number is infinite.
"""

from __future__ import annotations

import math
from typing import Any

from stoker.errors import InvalidRequest

INT64_MAX = 2**63 - 1


def invalid(param: str, message: str) -> InvalidRequest:
    return InvalidRequest(message, param=param)


class Fields:
    """Reads one JSON object. Every method returns None for a field that is absent or null."""

    def __init__(self, body: dict[str, Any], prefix: str = "") -> None:
        self.body = body
        self._prefix = prefix  # "stream_options." for nested objects

    def raw(self, name: str) -> Any:
        return self.body.get(name)

    def integer(self, name: str, low: int | None = None, high: int = INT64_MAX) -> int | None:
        raw = self.body.get(name)
        if raw is None:
            return None
        value = as_integer(raw)
        if value is None:
            raise self._wrong_type(name, "int")
        self._check_range(name, value, low, high)
        return value

    def number(self, name: str, low: float, high: float) -> float | None:
        value = self.body.get(name)
        if value is None:
            return None
        if not is_number(value):
            raise self._wrong_type(name, "float")
        self._check_range(name, value, low, high)
        return float(value)

    def flag(self, name: str) -> bool | None:
        value = self.body.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong_type(name, "bool")
        return value

    def string(self, name: str) -> str | None:
        value = self.body.get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong_type(name, "str")
        return value

    def nested(self, name: str) -> Fields | None:
        value = self.body.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise invalid(self._prefix + name, f"{self._prefix}{name} must be an object")
        return Fields(value, f"{self._prefix}{name}.")

    def one_of(self, name: str, allowed: tuple[str, ...]) -> Any:
        value = self.body.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or value not in allowed:
            listed = ", ".join(f"'{item}'" for item in allowed)
            raise invalid(self._prefix + name, f"{self._prefix}{name} must be one of {listed}")
        return value

    def required_one_of(self, name: str, allowed: tuple[str, ...]) -> str:
        value: str | None = self.one_of(name, allowed)
        if value is None:
            listed = ", ".join(f"'{item}'" for item in allowed)
            raise invalid(self._prefix + name, f"{self._prefix}{name} must be one of {listed}")
        return value

    def _wrong_type(self, name: str, kind: str) -> InvalidRequest:
        return invalid(self._prefix + name, f"{self._prefix}{name} must be of type {kind}")

    def _check_range(self, name: str, value: Any, low: Any, high: Any) -> None:
        if low is not None and value < low:
            raise invalid(self._prefix + name, f"{self._prefix}{name} must be at least {low}")
        if value > high:
            raise invalid(self._prefix + name, f"{self._prefix}{name} must be at most {high}")


def as_integer(value: Any) -> int | None:
    """The integer that a JSON number is (5, and 5.0 too), else None."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_number(value: Any) -> bool:
    """A JSON number that is finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or math.isfinite(value)
