"""Gemma 4 and FunctionGemma: bare keys, strings in sentinels, no escapes.

<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:3}<tool_call|>
<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.base import CallParser, Toolbox, ToolFormat
from stoker.chat.tools.grammars import Markup, bare_key_calls
from stoker.chat.tools.headed import HeadedCalls


def _parser(open: str, close: str, quote: str, toolbox: Toolbox) -> CallParser:
    header = re.compile(rf"\s*(?:{re.escape(open)})?\s*(?:call:)?\s*(?P<name>[^\s:{{}}]+)\s*")
    return HeadedCalls(toolbox, header, tails=(close,), raw_quotes=(quote,), again=("call:", ",call:", open))


def _grammar(
    open: str, close: str, quote: str, tools: Sequence[OfferedTool], parallel: bool, markup: Markup
) -> str:
    return bare_key_calls(tools, parallel, markup, open=(open, "call:"), close=(close,), quote=quote)


def _format(name: str, open: str, close: str, quote: str) -> ToolFormat:
    return ToolFormat(
        name=name,
        markers=(open,),
        tokens=(close, quote),
        make_parser=partial(_parser, open, close, quote),
        matches=lambda template: open in template and quote in template,
        grammar=partial(_grammar, open, close, quote),
    )


FORMAT = _format("gemma4", "<|tool_call>", "<tool_call|>", '<|"|>')
FUNCTION_FORMAT = _format("functiongemma", "<start_function_call>", "<end_function_call>", "<escape>")
