"""gpt-oss: messages with a channel and, for calls, a recipient.

    <|channel|>analysis<|message|>thinking<|end|><|start|>assistant<|channel|>final<|message|>answer
    <|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>

The whole reply is in this form, so it is read by `chat/harmony_reader.py`; here is only the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.base import CallParser, Toolbox, ToolFormat
from stoker.chat.tools.grammars import Markup, headed_calls
from stoker.chat.tools.headed import HeadedCalls

START, CHANNEL, MESSAGE, CONSTRAIN = "<|start|>", "<|channel|>", "<|message|>", "<|constrain|>"
END, CALL, RETURN = "<|end|>", "<|call|>", "<|return|>"
TOKENS = (START, CHANNEL, MESSAGE, CONSTRAIN, END, CALL, RETURN)
HEADER = re.compile(r".*?\bto=(?:functions\.)?(?P<name>[^\s<]+).*<\|message\|>\s*", re.DOTALL)


def _parser(toolbox: Toolbox) -> CallParser:
    return HeadedCalls(toolbox, HEADER, tails=(CALL, END))


def _grammar(tools: Sequence[OfferedTool], parallel: bool, markup: Markup) -> str:
    return headed_calls(
        tools,
        False,  # a call ends the model's turn
        markup,
        head=lambda name: (CHANNEL, f"commentary to=functions.{name} ", CONSTRAIN, "json", MESSAGE),
        tail=(CALL,),
    )


FORMAT = ToolFormat(
    name="harmony",
    markers=(),
    tokens=TOKENS,
    make_parser=_parser,
    matches=lambda template: CHANNEL in template and MESSAGE in template,
    grammar=_grammar,
)
