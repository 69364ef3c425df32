"""Gemma 2 and 3, which have no markup of their own and were taught code fences:

    ```tool_code
    get_weather(city="Paris")
    ```

and, like any model without a format, may write JSON in a fence or in <tool_call>.
"""

from __future__ import annotations

from collections.abc import Sequence

from stoker.chat.reading import OfferedTool
from stoker.chat.tools import hermes
from stoker.chat.tools.base import CallParser, ToolFormat
from stoker.chat.tools.blocks import WholeBlock
from stoker.chat.tools.grammars import Markup
from stoker.chat.tools.json_blocks import JsonBlocks
from stoker.chat.tools.python_calls import read_python_calls
from stoker.chat.tools.tool_call_tag import CLOSE, OPEN, ByFirstText

FENCE = "```"
_CODE, _JSON, _CALL = FENCE + "tool_code", FENCE + "json", FENCE + "tool_call"


class _Parser(ByFirstText):
    def _choose(self) -> CallParser | None:
        opener = next((word for word in (_CODE, _CALL, _JSON) if self._held.startswith(word)), None)
        if opener is None:
            return super()._choose()
        body = self._held[len(opener) :].lstrip()
        if not body:
            return None
        if opener == _CODE and body[0] != "{":
            return WholeBlock(self._toolbox, opener, read_python_calls, FENCE)
        return JsonBlocks(self._toolbox, opener, FENCE)


def _grammar(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
    return hermes.FORMAT.grammar(tools, parallel, markup)


FORMAT = ToolFormat(
    name="fenced",
    markers=(OPEN, _CODE, _CALL, _JSON),
    tokens=(CLOSE,),
    make_parser=_Parser,
    matches=lambda template: _CODE in template,
    grammar=_grammar,
    bare_json=True,
)
