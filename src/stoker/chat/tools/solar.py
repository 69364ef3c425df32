"""Solar Open: an id, the name and JSON between tokens.

<|tool_calls|><|tool_call:begin|>ID<|tool_call:name|>get_weather<|tool_call:args|>{"city": "Paris"}
<|tool_call:end|>
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.base import CallParser, Toolbox, ToolFormat
from stoker.chat.tools.grammars import Markup, headed_calls
from stoker.chat.tools.headed import HeadedCalls

OPEN, END = "<|tool_calls|>", "<|calls|>"
CALL, NAME, ARGUMENTS = "<|tool_call:begin|>", "<|tool_call:name|>", "<|tool_call:args|>"
CALL_END = "<|tool_call:end|>"
_HEADER = re.compile(
    r"\s*(?:<\|tool_calls\|>)?\s*<\|tool_call:begin\|>[^<]*<\|tool_call:name\|>\s*(?P<name>[^\s<]+)\s*"
    r"(?:<\|tool_call:args\|>)?\s*"
)


def _parser(toolbox: Toolbox) -> CallParser:
    return HeadedCalls(toolbox, _HEADER, tails=(CALL_END, END), again=(CALL, OPEN))


def _grammar(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
    return headed_calls(
        tools,
        parallel,
        markup,
        head=lambda name: (CALL, "call", NAME, name, ARGUMENTS),  # the id has no meaning
        tail=(CALL_END,),
        before=(OPEN,),
    )


FORMAT = ToolFormat(
    name="solar",
    markers=(OPEN, CALL),
    tokens=(NAME, ARGUMENTS, CALL_END, END),
    make_parser=_parser,
    matches=lambda template: CALL in template,
    grammar=_grammar,
)
