"""MiniMax M2, DeepSeek V3.2 and V4: <invoke> elements in a tag of the family's own.

<minimax:tool_call>
<invoke name="get_weather"><parameter name="city">Paris</parameter></invoke>
</minimax:tool_call>

<｜DSML｜function_calls>
<｜DSML｜invoke name="get_weather"><｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>...

V4 has <｜DSML｜tool_calls> for the outer tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from stoker.chat.reading import OfferedTool
from stoker.chat.tools.base import CallParser, Toolbox, ToolFormat
from stoker.chat.tools.element_tags import Dialect
from stoker.chat.tools.elements import ElementCalls
from stoker.chat.tools.grammars import Markup, element_calls

_DSML = "｜DSML｜"


def _parser(dialect: Dialect, toolbox: Toolbox) -> CallParser:
    return ElementCalls(toolbox, dialect)


def _grammar(
    prefix: str, open: str, close: str, tools: Sequence[OfferedTool], parallel: bool, markup: Markup
) -> str:
    def value(key: str, kind: str = "") -> tuple[str, str]:
        return f'<{prefix}parameter name="{key}"{kind}>', f"</{prefix}parameter>\n"

    return element_calls(
        tools,
        parallel,
        before=markup.text(open, "\n"),
        open=lambda name: markup.text(f'<{prefix}invoke name="{name}">\n'),
        value=partial(value, kind=' string="true"' if prefix else ""),
        plain=partial(value, kind=' string="false"' if prefix else ""),
        close=markup.text(f"</{prefix}invoke>\n"),
        after=markup.text(close),
    )


def _format(name: str, prefix: str, open: str, close: str, matches: tuple[str, ...]) -> ToolFormat:
    return ToolFormat(
        name=name,
        markers=(open,),
        tokens=(close, *((prefix,) if prefix else ())),
        make_parser=partial(_parser, Dialect(open, close, prefix=prefix)),
        matches=lambda template: all(word in template for word in matches),
        grammar=partial(_grammar, prefix, open, close),
    )


def _dsml(name: str, tag: str, *matches: str) -> ToolFormat:
    # Templates put their tags together from pieces.
    return _format(name, _DSML, f"<{_DSML}{tag}>", f"</{_DSML}{tag}>", (_DSML, *matches))


MINIMAX = _format("minimax", "", "<minimax:tool_call>", "</minimax:tool_call>", ("<minimax:tool_call>",))
DEEPSEEK = _dsml("deepseek_v3_2", "function_calls", "function_calls>")
DEEPSEEK_V4 = _dsml("deepseek_v4", "tool_calls")
