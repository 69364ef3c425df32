"""Mistral: a list of objects in the older models, a header for each call in the newer ones.

[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}]
[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}
[TOOL_CALLS]get_weather[CALL_ID]a1b2c3d4e[ARGS]{"city": "Paris"}
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.base import CallParser, ToolFormat
from stoker.chat.tools.grammars import Markup, headed_calls, json_calls
from stoker.chat.tools.headed import HeadedCalls
from stoker.chat.tools.json_blocks import JsonBlocks
from stoker.chat.tools.tool_call_tag import ByFirstText

OPEN, ARGS, CALL_ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
_HEADER = re.compile(
    r"\s*\[TOOL_CALLS\]\s*(?P<name>[^\[\]{}\s]+)\s*(?:\[CALL_ID\]\s*\w*\s*)?(?:\[ARGS\])?\s*"
)


class _Parser(ByFirstText):
    def _choose(self) -> CallParser | None:
        body = self._held[len(OPEN) :].lstrip()
        if not body:
            return None
        if body[0] in "[{":
            return JsonBlocks(self._toolbox, OPEN)
        return HeadedCalls(self._toolbox, _HEADER, again=(OPEN,))


def _lists(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
    return json_calls(tools, parallel, markup, before=(OPEN, " ["), between=(", ",), after=("]",))


def _headers(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
    return headed_calls(tools, parallel, markup, head=lambda name: (OPEN, name, ARGS))


FORMAT = ToolFormat(
    name="mistral",
    markers=(OPEN,),
    tokens=(ARGS, CALL_ID),
    make_parser=_Parser,
    matches=lambda template: OPEN in template and ARGS in template,
    grammar=_headers,
)
LIST_FORMAT = ToolFormat(
    name="mistral_list",
    markers=(OPEN,),
    tokens=(ARGS, CALL_ID),
    make_parser=_Parser,
    matches=lambda template: OPEN in template,
    grammar=_lists,
)
