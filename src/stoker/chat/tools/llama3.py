"""Llama 3.1 to 3.3: nothing but JSON, or JSON or Python behind a token.

{"name": "get_weather", "parameters": {"city": "Paris"}}
<|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris"}}
<|python_tag|>get_weather.call(city="Paris")
<function=get_weather>{"city": "Paris"}</function>
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.base import CallParser, ToolFormat
from stoker.chat.tools.blocks import WholeBlock
from stoker.chat.tools.grammars import Markup, json_calls
from stoker.chat.tools.json_blocks import JsonBlocks
from stoker.chat.tools.python_calls import read_python_calls
from stoker.chat.tools.tool_call_tag import FUNCTION, ByFirstText

TAG, END = "<|python_tag|>", "<|eom_id|>"


class _Parser(ByFirstText):
    def _choose(self) -> CallParser | None:
        if self._held.startswith(FUNCTION):
            return super()._choose()
        body = self._held[len(TAG) :].lstrip()
        if not body:
            return None
        if body[0] == "{":
            return JsonBlocks(self._toolbox, TAG)
        return WholeBlock(self._toolbox, TAG, read_python_calls, END)


def _grammar(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
    return json_calls(tools, parallel, markup, between=("; ",), key="parameters")


FORMAT = ToolFormat(
    name="llama3",
    markers=(TAG, FUNCTION),
    make_parser=_Parser,
    matches=lambda template: TAG in template or '{"name": function name, "parameters"' in template,
    grammar=_grammar,
    bare_json=True,
)
