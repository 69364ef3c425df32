"""Qwen3-Coder, Qwen3.5, Nemotron 3, Step: every argument an element.

<tool_call>
<function=get_weather>
<parameter=city>
Paris
</parameter>
</function>
</tool_call>
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.base import ToolFormat
from stoker.chat.tools.grammars import Markup, element_calls
from stoker.chat.tools.tool_call_tag import CLOSE, FUNCTION, OPEN, make_parser


def _grammar(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
    return element_calls(
        tools,
        parallel,
        open=lambda name: markup.text(OPEN, f"\n<function={name}>\n"),
        value=lambda key: (f"<parameter={key}>\n", "\n</parameter>\n"),
        close=markup.text("</function>\n", CLOSE),
        between=markup.text("\n"),
    )


FORMAT = ToolFormat(
    name="qwen_xml",
    markers=(OPEN, FUNCTION),
    tokens=(CLOSE,),
    make_parser=make_parser,
    matches=lambda template: (
        "<tool_call>" in template and "<function=" in template and "<parameter=" in template
    ),
    grammar=_grammar,
)
