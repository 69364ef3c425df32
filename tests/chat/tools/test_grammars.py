# ruff: noqa: E501 - replies are quoted as they come
"""Each family's grammar, compiled with llguidance and held against replies written by hand. What a grammar
accepts, the family's parser reads."""

from __future__ import annotations

import json
from typing import Any

import llguidance
import pytest
from tests.chat.readings import THINK, TOOLS, read, reading

from stoker.chat.reading import OfferedTool, ReplyReading
from stoker.chat.tools import FORMATS
from stoker.chat.tools.grammars import MAX_CALLS, Markup

BYTES = llguidance.LLTokenizer("byte")
_ARGS = '{"city": "Paris", "days": 3}'
_Q = '<|"|>'
# One call of get_weather(city="Paris", days=3) in every family's own spelling.
ONE = {
    "hermes": '<tool_call>\n{"name": "get_weather", "arguments": ' + _ARGS + "}\n</tool_call>",
    "fenced": '<tool_call>\n{"name": "get_weather", "arguments": ' + _ARGS + "}\n</tool_call>",
    "qwen_xml": "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
    "seed": "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n<parameter=days>3</parameter>\n</function>\n</seed:tool_call>",
    "minicpm": '<function name="get_weather"><param name="city"><![CDATA[Paris]]></param><param name="days">3</param></function>',
    "glm": "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
    "llama3": '{"name": "get_weather", "parameters": ' + _ARGS + "}",
    "mistral": "[TOOL_CALLS]get_weather[ARGS]" + _ARGS,
    "mistral_list": '[TOOL_CALLS] [{"name": "get_weather", "arguments": ' + _ARGS + "}]",
    "gemma4": f"<|tool_call>call:get_weather{{city:{_Q}Paris{_Q},days:3}}<tool_call|>",
    "functiongemma": "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:3}<end_function_call>",
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n" + _ARGS + "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek_v3_1": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" + _ARGS + "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek_v3_2": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
    "deepseek_v4": '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',
    "apriel": '<tool_calls>[{"name": "get_weather", "arguments": ' + _ARGS + "}]</tool_calls>",
    "minimax_m1": '<tool_calls>\n{"name": "get_weather", "arguments": ' + _ARGS + "}\n</tool_calls>",
    "gigachat": '<|function_call|>{"name": "get_weather", "arguments": ' + _ARGS + "}",
    "gigachat_3": '<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "get_weather", "arguments": ' + _ARGS + "}<|message_sep|>",
    "solar": "<|tool_calls|><|tool_call:begin|>call<|tool_call:name|>get_weather<|tool_call:args|>" + _ARGS + "<|tool_call:end|>",
    "minimax": '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n<parameter name="days">3</parameter>\n</invoke>\n</minimax:tool_call>',
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>" + _ARGS + "<|tool_call_end|><|tool_calls_section_end|>",
    "lfm2": '<|tool_call_start|>[{"name": "get_weather", "arguments": ' + _ARGS + "}]<|tool_call_end|>",
    "phi4": '<|tool_call|>[{"name": "get_weather", "arguments": ' + _ARGS + "}]<|/tool_call|>",
    "granite": '<|tool_call|>[{"name": "get_weather", "arguments": ' + _ARGS + "}]",
    "nemotron": '<TOOLCALL>[{"name": "get_weather", "arguments": ' + _ARGS + "}]</TOOLCALL>",
    "command": '<|START_ACTION|>[{"tool_name": "get_weather", "parameters": ' + _ARGS + "}]<|END_ACTION|>",
    "harmony": "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + _ARGS + "<|call|>",
}  # fmt: skip


def matcher(name: str, *, parallel: bool = True, tools: Any = TOOLS) -> llguidance.LLMatcher:
    source = FORMATS[name].grammar(tools, parallel, Markup())
    found = llguidance.LLMatcher(BYTES, llguidance.grammar_from("lark", source))
    assert not found.get_error(), source
    return found


def accepts(name: str, text: str, **options: Any) -> bool:
    found = matcher(name, **options)
    data = list(text.encode())
    return found.validate_tokens(data) == len(data) and found.consume_tokens(data) and found.is_accepting()


def test_every_format_is_here() -> None:
    assert ONE.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", ONE)
def test_good_and_bad(name: str) -> None:
    one = ONE[name]
    assert accepts(name, one)
    assert accepts(name, one, parallel=False)
    assert read(reading(name), one).calls == [("get_weather", {"city": "Paris", "days": 3})]
    for bad in (
        "",
        "Sure! " + one,
        one + " That was it.",
        one.replace("get_weather", "get_wealth"),
        one.replace("days", "nights"),
        one.replace("3", '"three"'),
        one[: len(one) // 2],
    ):
        assert not accepts(name, bad), bad


@pytest.mark.parametrize("name", ["hermes", "mistral", "qwen_xml", "gemma4", "glm"])
def test_several_only_when_parallel(name: str) -> None:
    between = "\n" if name in ("hermes", "qwen_xml", "glm") else ""
    assert accepts(name, between.join([ONE[name]] * MAX_CALLS))
    assert not accepts(name, between.join([ONE[name]] * (MAX_CALLS + 1)))
    assert not accepts(name, between.join([ONE[name]] * 2), parallel=False)


def test_optional_and_required_elements() -> None:
    call = "<tool_call>\n<function=get_weather>\n{}</function>\n</tool_call>"
    city, units = "<parameter=city>\na\nb <c>\n</parameter>\n", "<parameter=units>\nF\n</parameter>\n"
    assert accepts("qwen_xml", call.format(city))
    assert accepts("qwen_xml", call.format(city + units))
    assert not accepts("qwen_xml", call.format(units))
    assert not accepts("qwen_xml", call.format(city + units.replace("F", "K")))
    text = "<parameter=text>\nsee </tool_call>\n</parameter>\n"  # string or null
    written = call.replace("get_weather", "write_file").format("<parameter=path>\na\n</parameter>\n" + text)
    assert accepts("qwen_xml", written)
    assert read(reading("qwen_xml"), written).calls == [
        ("write_file", {"path": "a", "text": "see </tool_call>"})
    ]


def test_gemma_commas() -> None:
    tool = OfferedTool(
        "f", {"properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}, "c": {"type": "array"}}}
    )
    for inner in ("", "a:1", "b:true", "a:1,b:true", f"b:false,c:[1,{_Q}x{_Q},null,{{k:2}}]", "a:-10,c:[]"):
        assert accepts("gemma4", f"<|tool_call>call:f{{{inner}}}<tool_call|>", tools=[tool])
    for inner in (",", "a:1,", "b:1", "b:true,a:1", "a:x"):
        assert not accepts("gemma4", f"<|tool_call>call:f{{{inner}}}<tool_call|>", tools=[tool])


def test_references_reach_into_elements() -> None:
    schema = {
        "$defs": {"Size": {"enum": [1, 2]}},
        "properties": {"size": {"$ref": "#/$defs/Size"}},
        "required": ["size"],
    }
    call = "<tool_call>\n<function=f>\n<parameter=size>\n{}\n</parameter>\n</function>\n</tool_call>"
    tool = OfferedTool("f", schema)
    assert accepts("qwen_xml", call.format(2), tools=[tool])
    assert not accepts("qwen_xml", call.format(3), tools=[tool])
    assert accepts(
        "hermes", '<tool_call>\n{"name": "f", "arguments": {"size": 1}}\n</tool_call>', tools=[tool]
    )


def test_odd_names_and_schemas() -> None:
    """Quotes and backslashes in names, schemas without types: the grammar compiles and the parser reads."""
    tool = OfferedTool("mcp__srv-1.do", {"properties": {'ke"y\\': {}}, "required": ['ke"y\\']})
    for name in FORMATS:
        matcher(name, tools=[tool, OfferedTool("x", {})])
    text = (
        '<tool_call>\n{"name": "mcp__srv-1.do", "arguments": ' + json.dumps({'ke"y\\': 1}) + "}\n</tool_call>"
    )
    assert accepts("hermes", text, tools=[tool])
    how = ReplyReading(reasoning=THINK, tool_format="hermes", tools=(tool,))
    assert read(how, text).calls == [("mcp__srv-1.do", {'ke"y\\': 1})]


def test_special_tokens_are_named_by_id() -> None:
    source = FORMATS["mistral"].grammar(TOOLS, False, Markup({"[TOOL_CALLS]": 9, "[ARGS]": 32}))
    assert '<[9]> "get_weather" <[32]>' in source
