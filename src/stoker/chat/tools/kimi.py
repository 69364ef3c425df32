"""Kimi K2:

<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>
{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.base import CallParser, Toolbox, ToolFormat
from stoker.chat.tools.grammars import Markup, headed_calls
from stoker.chat.tools.headed import HeadedCalls

BEGIN, END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL, ARGUMENTS, CALL_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_HEADER = re.compile(
    r"\s*(?:<\|tool_calls_section_begin\|>)?\s*<\|tool_call_begin\|>\s*(?:functions\.)?(?P<name>[^\s:<]+)"
    r"(?::\d+)?\s*(?:<\|tool_call_argument_begin\|>)?\s*"
)


def _parser(toolbox: Toolbox) -> CallParser:
    return HeadedCalls(toolbox, _HEADER, tails=(CALL_END, END), again=(CALL, BEGIN))


def _grammar(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
    return headed_calls(
        tools,
        parallel,
        markup,
        head=lambda name: (CALL, f"functions.{name}:0", ARGUMENTS),
        tail=(CALL_END,),
        before=(BEGIN,),
        after=(END,),
    )


FORMAT = ToolFormat(
    name="kimi",
    markers=(BEGIN, CALL),
    tokens=(END, ARGUMENTS, CALL_END),
    make_parser=_parser,
    matches=lambda template: CALL in template,
    grammar=_grammar,
)
