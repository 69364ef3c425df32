"""The `tools` and `tool_choice` of a request, checked. Whether a reply calls one is found out elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from stoker.api.fields import Fields, invalid
from stoker.chat.reading import OfferedTool

Mode = Literal["none", "auto", "required", "named"]


@dataclass(frozen=True, slots=True)
class Tools:
    """`in_prompt` is what the template sees: nothing when `tool_choice` is none. `callable` are the tools
    whose calls are looked for in the reply: with none, in order to take them out."""

    mode: Mode
    in_prompt: list[dict[str, Any]] | None = None
    callable: tuple[OfferedTool, ...] = ()
    parallel: bool = True


def read_tools(fields: Fields) -> Tools:
    tools = fields.raw("tools")
    if tools is not None:
        _check_tools(tools)
    parallel = fields.flag("parallel_tool_calls") is not False
    mode, name = _read_choice(fields.raw("tool_choice"), tools or [])
    if not tools:
        return Tools("none")
    offered = tuple(
        OfferedTool(tool["function"]["name"], tool["function"].get("parameters") or {})
        for tool in tools
        if name in (None, tool["function"]["name"])
    )
    in_prompt = None if mode == "none" else tools
    return Tools(mode, in_prompt, offered, parallel)


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


def _read_choice(choice: Any, tools: list[dict[str, Any]]) -> tuple[Mode, str | None]:
    """The mode, and for `named` the function's name."""
    if choice is None or choice == "auto":
        return "auto", None
    if choice == "none":
        return "none", None
    if choice == "required":
        if not tools:
            raise invalid("tool_choice", "tool_choice 'required' needs tools")
        return "required", None
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise invalid(
            "tool_choice", "tool_choice must be 'none', 'auto', 'required' or an object that names a function"
        )
    if name not in [tool["function"]["name"] for tool in tools]:
        raise invalid("tool_choice", "tool_choice names a function that is not in tools")
    return "named", name
