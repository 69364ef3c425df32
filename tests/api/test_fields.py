"""Typed fields and the words of their errors."""

from collections.abc import Callable
from typing import Any

import pytest

from stoker.api.fields import Fields
from stoker.errors import InvalidRequest


def message(call: Callable[[], Any]) -> str:
    with pytest.raises(InvalidRequest) as caught:
        call()
    return caught.value.message


@pytest.mark.parametrize("body", [{}, {"x": None}])
def test_null_counts_as_unset(body: dict[str, Any]) -> None:
    fields = Fields(body)
    assert fields.integer("x", 1) is None
    assert fields.number("x", 0, 1) is None
    assert fields.flag("x") is None
    assert fields.string("x") is None
    assert fields.nested("x") is None
    assert fields.one_of("x", ("a",)) is None


@pytest.mark.parametrize("value", ["1", 1.5, True, [], {}, float("inf"), float("nan")])
def test_integer_type(value: object) -> None:
    assert message(lambda: Fields({"x": value}).integer("x")) == "x must be of type int"


@pytest.mark.parametrize("value", ["1", True, [], {}, float("inf"), float("nan")])
def test_number_type(value: object) -> None:
    assert message(lambda: Fields({"x": value}).number("x", 0, 1)) == "x must be of type float"


@pytest.mark.parametrize("value", [0, 1, "true", []])
def test_flag_type(value: object) -> None:
    assert message(lambda: Fields({"x": value}).flag("x")) == "x must be of type bool"


def test_a_whole_number_may_be_written_with_a_point() -> None:
    assert Fields({"x": 5.0}).integer("x") == 5
    assert message(lambda: Fields({"x": 1e300}).integer("x")) == f"x must be at most {2**63 - 1}"


def test_ranges() -> None:
    fields = Fields({"low": 0, "high": 21, "minus": -0.1, "huge": 10**400, "exact": 1})
    assert message(lambda: fields.integer("low", 1)) == "low must be at least 1"
    assert message(lambda: fields.integer("high", 0, 20)) == "high must be at most 20"
    assert message(lambda: fields.number("minus", 0, 1)) == "minus must be at least 0"
    assert message(lambda: fields.number("huge", 0, 1)) == "huge must be at most 1"
    assert message(lambda: fields.integer("huge")) == f"huge must be at most {2**63 - 1}"
    assert fields.number("exact", 0, 1) == 1.0


def test_nested_names_the_path() -> None:
    nested = Fields({"options": {"x": 1}}).nested("options")
    assert nested is not None
    assert message(lambda: nested.flag("x")) == "options.x must be of type bool"
    assert message(lambda: Fields({"options": 3}).nested("options")) == "options must be an object"
