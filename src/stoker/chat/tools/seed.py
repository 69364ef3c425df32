"""Seed-OSS: Qwen3-Coder's elements in a tag of its own.

<seed:tool_call>
<function=get_weather>
<parameter=city>Paris</parameter>
</function>
</seed:tool_call>
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.base import CallParser, Toolbox, ToolFormat
from stoker.chat.tools.element_tags import Dialect
from stoker.chat.tools.elements import ElementCalls
from stoker.chat.tools.grammars import Markup, element_calls

OPEN, CLOSE = "<seed:tool_call>", "</seed:tool_call>"
_DIALECT = Dialect(OPEN, CLOSE)


def _parser(toolbox: Toolbox) -> CallParser:
    return ElementCalls(toolbox, _DIALECT)


def _grammar(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
    return element_calls(
        tools,
        parallel,
        open=lambda name: markup.text(OPEN, f"\n<function={name}>\n"),
        value=lambda key: (f"<parameter={key}>", "</parameter>\n"),
        close=markup.text("</function>\n", CLOSE),
        between=markup.text("\n"),
    )


FORMAT = ToolFormat(
    name="seed",
    markers=(OPEN,),
    tokens=(CLOSE,),
    make_parser=_parser,
    matches=lambda template: OPEN in template,
    grammar=_grammar,
)
