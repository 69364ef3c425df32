"""`tools` and `tool_choice` of a Messages request in the form of a chat request."""

from __future__ import annotations

from typing import Any

from stoker.api.fields import invalid

_MODES = {"auto": "auto", "any": "required", "none": "none"}


def read_tools(tools: Any) -> list[dict[str, Any]] | None:
    """Function tools. Tools that the provider's own servers or trained-in schemas would supply (web
    search, bash, ...: no `input_schema`) are left out silently: clients list them as offers."""
    if tools is None:
        return None
    if not isinstance(tools, list):
        raise invalid("tools", "tools must be an array")
    functions = []
    for number, tool in enumerate(tools):
        at = f"tools[{number}]"
        if not isinstance(tool, dict):
            raise invalid(at, f"{at} must be an object")
        name, schema = tool.get("name"), tool.get("input_schema")
        if name is None or schema is None:
            continue
        if not isinstance(name, str) or not name:
            raise invalid(f"{at}.name", f"{at}.name must be a non-empty string")
        if not isinstance(schema, dict):
            raise invalid(f"{at}.input_schema", f"{at}.input_schema must be an object")
        function = {"name": name, "parameters": schema}
        if isinstance(description := tool.get("description"), str):
            function["description"] = description
        functions.append({"type": "function", "function": function})
    return functions


def read_tool_choice(choice: Any) -> dict[str, Any]:
    """The chat fields `tool_choice` and `parallel_tool_calls` it stands for."""
    if choice is None:
        return {}
    kind = choice.get("type") if isinstance(choice, dict) else None
    if not isinstance(kind, str) or kind not in (*_MODES, "tool"):
        raise invalid("tool_choice", "tool_choice.type must be one of 'auto', 'any', 'tool', 'none'")
    fields: dict[str, Any] = {"tool_choice": _MODES.get(kind)}
    if kind == "tool":
        name = choice.get("name")
        if not isinstance(name, str):
            raise invalid("tool_choice.name", "tool_choice.name must be a string")
        fields["tool_choice"] = {"type": "function", "function": {"name": name}}
    single = choice.get("disable_parallel_tool_use")
    if single is not None and not isinstance(single, bool):
        raise invalid(
            "tool_choice.disable_parallel_tool_use",
            "tool_choice.disable_parallel_tool_use must be of type bool",
        )
    if single:
        fields["parallel_tool_calls"] = False
    return fields
