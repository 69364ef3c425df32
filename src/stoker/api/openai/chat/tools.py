"""The `tools` and `tool_choice` of a request, checked. Whether a reply calls one is found out elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stoker.api.fields import Fields, invalid


@dataclass(frozen=True, slots=True)
class Tools:
    """`offered` is what the template sees: nothing when `tool_choice` is none."""

    offered: list[dict[str, Any]] | None
    warning: str | None  # a mode that was asked for and is answered as `auto`


def read_tools(fields: Fields) -> Tools:
    tools = fields.raw("tools")
    if tools is not None:
        _check_tools(tools)
    mode = _read_choice(fields.raw("tool_choice"), tools or [])
    if not tools or mode == "none":
        return Tools(None, None)
    warning = None if mode == "auto" else f"tool_choice not enforced: {mode} - treated as auto"
    return Tools(tools, warning)


def _check_tools(tools: Any) -> None:
    if not isinstance(tools, list):
        raise invalid("tools", "tools must be an array")
    for number, tool in enumerate(tools):
        where = f"tools[{number}]"
        if not isinstance(tool, dict) or not isinstance(tool.get("function"), dict):
            raise invalid(where, f"{where} must be an object with a function")
        if tool.get("type", "function") != "function":
            raise invalid(f"{where}.type", f"{where}.type must be 'function'")
        name = tool["function"].get("name")
        if not isinstance(name, str) or not name:
            raise invalid(f"{where}.function.name", f"{where}.function.name must be a non-empty string")
        if not isinstance(tool["function"].get("parameters", {}), dict | None):
            raise invalid(f"{where}.function.parameters", f"{where}.function.parameters must be an object")


def _read_choice(choice: Any, tools: list[dict[str, Any]]) -> str:
    """`none`, `auto`, `required` or `function` (one is named)."""
    if choice is None:
        return "auto"
    if isinstance(choice, str) and choice in ("none", "auto", "required"):
        if choice == "required" and not tools:
            raise invalid("tool_choice", "tool_choice 'required' needs tools")
        return choice
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise invalid(
            "tool_choice", "tool_choice must be 'none', 'auto', 'required' or an object that names a function"
        )
    if name not in [tool["function"]["name"] for tool in tools]:
        raise invalid("tool_choice", "tool_choice names a function that is not in tools")
    return "function"
