"""Tools and tool_choice in the chat form."""

from typing import Any

import pytest

from stoker.api.anthropic.tools import read_tool_choice, read_tools
from stoker.errors import InvalidRequest

SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}}


def test_a_tool_becomes_a_function() -> None:
    tool = {"name": "look", "description": "Looks.", "input_schema": SCHEMA, "cache_control": {}}
    assert read_tools([tool]) == [
        {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA}}
    ]


def test_tools_of_the_provider_are_left_out() -> None:
    offered = [
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "bash_20250124", "name": "bash"},
        {"input_schema": SCHEMA},
    ]
    assert read_tools(offered) == []
    assert read_tools(None) is None


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, {}),
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        (
            {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
            {
                "tool_choice": {"type": "function", "function": {"name": "look"}},
                "parallel_tool_calls": False,
            },
        ),
        ({"type": "auto", "disable_parallel_tool_use": False}, {"tool_choice": "auto"}),
    ],
)
def test_choices(choice: Any, expected: dict[str, Any]) -> None:
    assert read_tool_choice(choice) == expected


@pytest.mark.parametrize(
    "tools", [{}, "x", [1], [{"name": "", "input_schema": {}}], [{"name": "a", "input_schema": 1}]]
)
def test_wrong_tools(tools: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^tools"):
        read_tools(tools)


@pytest.mark.parametrize(
    "choice",
    ["auto", {}, {"type": "maybe"}, {"type": "tool"}, {"type": "any", "disable_parallel_tool_use": 1}],
)
def test_wrong_choices(choice: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"^tool_choice"):
        read_tool_choice(choice)
