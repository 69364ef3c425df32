"""Conversations for template tests, in the OpenAI form."""

from __future__ import annotations

from typing import Any

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": 'Weather of a place <now> & later, "quoted" – größer',
            "parameters": {
                "type": "object",
                "properties": {"place": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["place"],
            },
        },
    },
    {"type": "function", "function": {"name": "stop", "parameters": {"type": "object", "properties": {}}}},
]

USER = [{"role": "user", "content": "Name three rivers."}]
SYSTEM = [{"role": "system", "content": "Answer in one line."}, *USER]
LONG = [
    *SYSTEM,
    {"role": "assistant", "content": "  Rhine, Elbe, Oder.  "},
    {"role": "user", "content": 'And in <b>China</b>? 长江 & "黄河" 🌊\n\nPlease.'},
    {"role": "assistant", "content": "长江, 黄河, 珠江"},
    {"role": "user", "content": "Danke!\n"},
]


def call(arguments: object, name: str = "get_weather", call_id: str = "abcdefgh1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool_round(arguments: object, content: object = "") -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": "How is it in Köln?"},
        {"role": "assistant", "content": content, "tool_calls": [call(arguments)]},
        {"role": "tool", "tool_call_id": "abcdefgh1", "content": "12 °C"},
    ]


MAPPING = {"place": "Köln", "days": 3, "nested": {"list": [1, None, True, "长"], "html": "<&>"}}

PLAIN: dict[str, list[dict[str, Any]]] = {"user": USER, "system": SYSTEM, "long": LONG, "no system": LONG[1:]}
