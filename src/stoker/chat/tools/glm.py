"""GLM 4.5 and later: keys and values side by side.

<tool_call>get_weather
<arg_key>city</arg_key>
<arg_value>Paris</arg_value>
</tool_call>
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.base import ToolFormat
from stoker.chat.tools.grammars import Markup, element_calls
from stoker.chat.tools.tool_call_tag import CLOSE, OPEN, make_parser

_TAGS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")


def _grammar(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
    return element_calls(
        tools,
        parallel,
        open=lambda name: markup.text(OPEN, f"{name}\n"),
        value=lambda key: (f"<arg_key>{key}</arg_key>\n<arg_value>", "</arg_value>\n"),
        close=markup.text(CLOSE),
        between=markup.text("\n"),
    )


FORMAT = ToolFormat(
    name="glm",
    markers=(OPEN,),
    tokens=(CLOSE, *_TAGS),
    make_parser=make_parser,
    matches=lambda template: "<arg_key>" in template and "<arg_value>" in template,
    grammar=_grammar,
)
