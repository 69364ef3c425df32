"""`tools` and `tool_choice` of a Responses request in the form of a chat request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stoker.api.fields import invalid

_MODES = ("auto", "none", "required")


@dataclass(frozen=True, slots=True)
class ResponseTools:
    """`echo` and `echo_choice` are how the response repeats them."""

    functions: list[dict[str, Any]]  # in the chat form
    choice: Any  # in the chat form
    echo: list[dict[str, Any]]
    echo_choice: Any


def read_tools(tools: Any, choice: Any) -> ResponseTools:
    """Tools that the provider would run itself (web search, files, ...) are left out silently:
    clients list them as offers."""
    if tools is not None and not isinstance(tools, list):
        raise invalid("tools", "tools must be an array")
    echo = []
    for number, tool in enumerate(tools or []):
        at = f"tools[{number}]"
        if not isinstance(tool, dict):
            raise invalid(at, f"{at} must be an object")
        kind = tool.get("type", "function")
        if not isinstance(kind, str):
            raise invalid(f"{at}.type", f"{at}.type must be a string")
        if kind == "function":
            echo.append(_flat(tool, at))
    chat_choice, allowed = _read_choice(choice)
    offered = [tool for tool in echo if allowed is None or tool["name"] in allowed]
    return ResponseTools(
        [_chat_form(tool) for tool in offered], chat_choice, echo, "auto" if choice is None else choice
    )


def _flat(tool: dict[str, Any], at: str) -> dict[str, Any]:
    """A function tool; the chat protocol's nested form is taken too."""
    inner = tool.get("function")
    source = inner if isinstance(inner, dict) else tool
    name, parameters, strict = source.get("name"), source.get("parameters"), source.get("strict")
    if not isinstance(name, str) or not name:
        raise invalid(f"{at}.name", f"{at}.name must be a non-empty string")
    if parameters is not None and not isinstance(parameters, dict):
        raise invalid(f"{at}.parameters", f"{at}.parameters must be an object")
    if strict is not None and not isinstance(strict, bool):
        raise invalid(f"{at}.strict", f"{at}.strict must be of type bool")
    description = source.get("description")
    return {
        "type": "function",
        "name": name,
        "description": description if isinstance(description, str) else None,
        "parameters": parameters,
        "strict": strict,
    }


def _chat_form(tool: dict[str, Any]) -> dict[str, Any]:
    function = {name: tool[name] for name in ("name", "description", "parameters", "strict")}
    return {
        "type": "function",
        "function": {name: value for name, value in function.items() if value is not None},
    }


def _read_choice(choice: Any) -> tuple[Any, set[str] | None]:
    """The choice in the chat form, and the names it narrows the tools to (None: all)."""
    if choice is None or (isinstance(choice, str) and choice in _MODES):
        return choice, None
    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind == "function":
        inner = choice.get("function")
        name = inner.get("name") if isinstance(inner, dict) else choice.get("name")
        if not isinstance(name, str):
            raise invalid("tool_choice.name", "tool_choice.name must be a string")
        return {"type": "function", "function": {"name": name}}, None
    if kind == "allowed_tools":
        return _allowed(choice)
    raise invalid(
        "tool_choice",
        "tool_choice must be 'auto', 'none', 'required' or an object of type 'function' or 'allowed_tools'",
    )


def _allowed(choice: dict[str, Any]) -> tuple[Any, set[str]]:
    mode, tools = choice.get("mode", "auto"), choice.get("tools")
    if mode not in ("auto", "required"):
        raise invalid("tool_choice.mode", "tool_choice.mode must be one of 'auto', 'required'")
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise invalid("tool_choice.tools", "tool_choice.tools must be an array of objects")
    return mode, {tool["name"] for tool in tools if isinstance(tool.get("name"), str)}
