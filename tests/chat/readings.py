"""Reads a scripted reply and says what came of it; and the tools the tests offer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from stoker.chat.calls import ToolCallDelta, join_deltas
from stoker.chat.harmony_reader import HarmonyReader
from stoker.chat.reader import ReplyReader
from stoker.chat.reading import OfferedTool, ReplyReading
from stoker.chat.segments import Piece

THINK = ("<think>", "</think>")
TOOLS = (
    OfferedTool(
        "get_weather",
        {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer"},
                "units": {"type": "string", "enum": ["C", "F"]},
                "detailed": {"type": "boolean"},
            },
            "required": ["city"],
        },
    ),
    OfferedTool(
        "write_file",
        {
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "text": {"type": ["string", "null"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "meta": {"type": "object"},
            },
            "required": ["path", "text"],
        },
    ),
    OfferedTool("now", {"type": "object", "properties": {}}),
)


@dataclass(frozen=True)
class Result:
    text: str
    reasoning: str
    calls: list[tuple[str, Any]]  # name and decoded arguments


def reading(tool_format: str | None, **options: Any) -> ReplyReading:
    if tool_format == "harmony":
        return ReplyReading(is_harmony=True, tool_format="harmony", tools=TOOLS, **options)
    return ReplyReading(reasoning=THINK, tool_format=tool_format, tools=TOOLS, **options)


def read(how: ReplyReading, pieces: Iterable[str]) -> Result:
    reader = HarmonyReader(how) if how.is_harmony else ReplyReader(how)
    made: list[Piece] = []
    for piece in pieces:
        made += reader.feed(piece)
    made += reader.finish()
    return result(made)


def result(pieces: list[Piece]) -> Result:
    deltas = [piece for piece in pieces if isinstance(piece, ToolCallDelta)]
    segments = [piece for piece in pieces if not isinstance(piece, ToolCallDelta)]
    return Result(
        "".join(s.text for s in segments if not s.is_reasoning),
        "".join(s.text for s in segments if s.is_reasoning),
        [(call.name, json.loads(call.arguments)) for call in join_deltas(deltas)],
    )
