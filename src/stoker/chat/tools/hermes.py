"""Hermes, Qwen 2.5 and 3, Granite 4, SmolLM3 and many others:

<tool_call>
{"name": "get_weather", "arguments": {"city": "Paris"}}
</tool_call>
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.base import ToolFormat
from stoker.chat.tools.grammars import Markup, json_calls
from stoker.chat.tools.tool_call_tag import CLOSE, OPEN, make_parser


def _grammar(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
    return json_calls(tools, parallel, markup, open=(OPEN, "\n"), close=("\n", CLOSE), between=("\n",))


FORMAT = ToolFormat(
    name="hermes",
    markers=(OPEN,),
    tokens=(CLOSE,),
    make_parser=make_parser,
    matches=lambda template: OPEN in template,
    grammar=_grammar,
    bare_json=True,
)
