"""DeepSeek R1 and V3 (name and a JSON fence), V3.1 (name and JSON).

<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather
```json
{"city": "Paris"}
```<｜tool▁call▁end｜><｜tool▁calls▁end｜>

<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}<｜tool▁call▁end｜>...
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.base import CallParser, Toolbox, ToolFormat
from stoker.chat.tools.grammars import Markup, headed_calls
from stoker.chat.tools.headed import HeadedCalls

BEGIN, END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
CALL, SEP, CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
_HEADER = re.compile(
    rf"\s*(?:{BEGIN})?\s*(?:{CALL})?\s*(?:function{SEP})?\s*(?P<name>[^\s<｜`]+)\s*(?:{SEP})?\s*(?:```(?:json)?)?\s*"
)


def _parser(toolbox: Toolbox) -> CallParser:
    return HeadedCalls(toolbox, _HEADER, tails=("```", CALL_END, END), again=(CALL, BEGIN))


def _fenced(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
    return headed_calls(
        tools,
        parallel,
        markup,
        head=lambda name: (CALL, "function", SEP, f"{name}\n```json\n"),
        tail=("\n```", CALL_END),
        before=(BEGIN,),
        between=("\n",),
        after=(END,),
    )


def _plain(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
    return headed_calls(
        tools,
        parallel,
        markup,
        head=lambda name: (CALL, name, SEP),
        tail=(CALL_END,),
        before=(BEGIN,),
        after=(END,),
    )


_TOKENS = (END, SEP, CALL_END)
FORMAT = ToolFormat(
    name="deepseek",
    markers=(BEGIN, CALL),
    tokens=_TOKENS,
    make_parser=_parser,
    matches=lambda template: CALL in template and "```json" in template,
    grammar=_fenced,
)
PLAIN_FORMAT = ToolFormat(
    name="deepseek_v3_1",
    markers=(BEGIN, CALL),
    tokens=_TOKENS,
    make_parser=_parser,
    matches=lambda template: CALL in template,
    grammar=_plain,
)
