"""LFM2: a list of Python calls between tokens.

<|tool_call_start|>[get_weather(city="Paris")]<|tool_call_end|>
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.base import CallParser, ToolFormat
from stoker.chat.tools.blocks import WholeBlock
from stoker.chat.tools.grammars import Markup, json_calls
from stoker.chat.tools.json_blocks import JsonBlocks
from stoker.chat.tools.python_calls import read_python_calls
from stoker.chat.tools.tool_call_tag import ByFirstText

OPEN, CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"


class _Parser(ByFirstText):
    def _choose(self) -> CallParser | None:
        body = self._held[len(OPEN) :].lstrip(" \t\r\n[")
        if not body:
            return None
        if body[0] == "{":
            return JsonBlocks(self._toolbox, OPEN, CLOSE)
        return WholeBlock(self._toolbox, OPEN, read_python_calls, CLOSE)


def _grammar(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
    """The JSON form, which these models were also trained on."""
    return json_calls(tools, parallel, markup, before=(OPEN, "["), between=(", ",), after=("]", CLOSE))


FORMAT = ToolFormat(
    name="lfm2",
    markers=(OPEN,),
    tokens=(CLOSE,),
    make_parser=_Parser,
    # The older templates show only how tools are listed.
    matches=lambda template: OPEN in template or "<|tool_list_start|>" in template,
    grammar=_grammar,
)
