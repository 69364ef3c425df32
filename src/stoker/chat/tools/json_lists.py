"""Families that write one JSON list of calls behind a token.

<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]<|/tool_call|>   Phi-4 mini
<|tool_call|>[{"name": ...}]                                                           Granite 3
<TOOLCALL>[{"name": ...}]</TOOLCALL>                                                   Nemotron
<|START_ACTION|>[{"tool_name": ..., "parameters": {...}}]<|END_ACTION|>                Command R7B
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.base import CallParser, Toolbox, ToolFormat
from stoker.chat.tools.grammars import Markup, json_calls
from stoker.chat.tools.json_blocks import JsonBlocks


def _format(
    name: str,
    open: str,
    close: str,
    matches: Callable[[str], bool],
    name_key: str = "name",
    key: str = "arguments",
) -> ToolFormat:
    def make_parser(toolbox: Toolbox) -> CallParser:
        return JsonBlocks(toolbox, open, close)

    def grammar(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
        after = ("]", close) if close else ("]",)
        return json_calls(
            tools,
            parallel,
            markup,
            before=(open, "["),
            between=(", ",),
            after=after,
            name_key=name_key,
            key=key,
        )

    return ToolFormat(
        name=name,
        markers=(open,),
        tokens=(close,) if close else (),
        make_parser=make_parser,
        matches=matches,
        grammar=grammar,
        bare_json=True,
    )


PHI4 = _format("phi4", "<|tool_call|>", "<|/tool_call|>", lambda t: "<|/tool_call|>" in t or "<|tool|>" in t)
GRANITE = _format("granite", "<|tool_call|>", "", lambda t: "<|tool_call|>" in t)
NEMOTRON = _format("nemotron", "<TOOLCALL>", "</TOOLCALL>", lambda t: "<TOOLCALL>" in t)
COMMAND = _format(
    "command",
    "<|START_ACTION|>",
    "<|END_ACTION|>",
    lambda t: "<|START_ACTION|>" in t,
    name_key="tool_name",
    key="parameters",
)
