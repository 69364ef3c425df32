"""MiniCPM5: XML with entities and CDATA.

<function name="get_weather"><param name="city"><![CDATA[a < b]]></param></function>
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.base import CallParser, Toolbox, ToolFormat
from stoker.chat.tools.element_tags import Dialect, Framing
from stoker.chat.tools.elements import ElementCalls
from stoker.chat.tools.grammars import Markup, element_calls

OPEN, CLOSE = '<function name="', "</function>"
_DIALECT = Dialect(framing=Framing.XML)  # the opening tag holds the name: it is part of the call


def _parser(toolbox: Toolbox) -> CallParser:
    return ElementCalls(toolbox, _DIALECT)


def _grammar(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
    return element_calls(
        tools,
        parallel,
        open=lambda name: markup.text(f'<function name="{name}">'),
        value=lambda key: (f'<param name="{key}"><![CDATA[', "]]></param>"),
        plain=lambda key: (f'<param name="{key}">', "</param>"),
        close=markup.text(CLOSE),
        between=markup.text("\n"),
    )


FORMAT = ToolFormat(
    name="minicpm",
    markers=(OPEN,),
    make_parser=_parser,
    matches=lambda template: OPEN in template and "<param name=" in template,
    grammar=_grammar,
)
