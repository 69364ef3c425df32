"""How to read a reply: which channels and which tool calls its text may hold.

Decided once per request from the chat template, the rendered prompt and the offered tools.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

JsonSchema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OfferedTool:
    name: str
    parameters: JsonSchema


@dataclass(frozen=True, slots=True)
class ReplyReading:
    """What `ReplyAssembler` needs to know besides the tokens."""

    reasoning: tuple[str, str] | None = None  # opening and closing tag of the thinking channel
    starts_inside: bool = False  # the prompt ends in an open thinking channel
    is_harmony: bool = False  # gpt-oss: the whole reply is in a frame of its own
    tool_format: str | None = None  # a name in `chat.tools.FORMATS`; None = no calls are looked for
    tools: tuple[OfferedTool, ...] = ()
    parallel: bool = True  # False: the first call ends the reply
    drop_calls: bool = False  # tool_choice none: markup is taken out and thrown away
