"""Families that write one JSON list of calls behind a token.

<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]<|/tool_call|>   Phi-4 mini
<|tool_call|>[{"name": ...}]                                                           Granite 3
<TOOLCALL>[{"name": ...}]</TOOLCALL>                                                   Nemotron
<|START_ACTION|>[{"tool_name": ..., "parameters": {...}}]<|END_ACTION|>                Command R7B
<tool_calls>[{"name": ...}]</tool_calls>                                               Apriel

and of some that write objects:

<tool_calls>
{"name": ...}
</tool_calls>                                                                          MiniMax M1
<|function_call|>{"name": ...}                                                         GigaChat 3.1
function call<|role_sep|>
{"name": ...}<|message_sep|>                                                           GigaChat 3

GigaChat 3 has a turn of its own for the call: the end of the one before is part of its markup.
"""

from __future__ import annotations

import re
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
    frame: tuple[str, str, str] = ("[", ", ", "]"),
    tokens: tuple[str, ...] = (),
) -> ToolFormat:
    def make_parser(toolbox: Toolbox) -> CallParser:
        return JsonBlocks(toolbox, open, close)

    before, between, after = frame

    def grammar(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
        return json_calls(
            tools,
            parallel and between != "",
            markup,
            before=(open, before),
            between=(between,),
            after=(after, close),
            name_key=name_key,
            key=key,
        )

    return ToolFormat(
        name=name,
        markers=(open,),
        tokens=(*((close,) if close else ()), *tokens),
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
APRIEL = _format(
    "apriel", "<tool_calls>", "</tool_calls>", lambda t: re.search(r"<tool_calls>\s*\[", t) is not None
)
MINIMAX_M1 = _format(
    "minimax_m1", "<tool_calls>", "</tool_calls>", lambda t: "<tool_calls>" in t, frame=("\n", "\n", "\n")
)
GIGACHAT = _format(
    "gigachat", "<|function_call|>", "", lambda t: "<|function_call|>" in t, frame=("", "", "")
)
GIGACHAT_3 = _format(
    "gigachat_3",
    "<|message_sep|>\n\nfunction call<|role_sep|>\n",
    "<|message_sep|>",
    lambda t: "function call" in t and "<|role_sep|>" in t,
    frame=("", "", ""),
    tokens=("<|role_sep|>",),
)
