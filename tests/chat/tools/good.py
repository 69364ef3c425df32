# ruff: noqa: E501 - replies are quoted as they come
"""Well-formed replies of every family, and what is in them. Written by hand from the families' templates."""

from __future__ import annotations

from typing import Any, NamedTuple

PARIS = ("get_weather", {"city": "Paris", "days": 3})
CODE = 'if a < b:\n    print("</p>", \'x\')\n\treturn {"k": [1, 2]}  # \\d+ é 🌍'
FILE = ("write_file", {"path": "/tmp/ä b.py", "text": CODE, "tags": ["a,b", "c}d"]})
NOW: tuple[str, dict[str, Any]] = ("now", {})


class Good(NamedTuple):
    format: str
    reply: str
    calls: list[tuple[str, dict[str, Any]]]
    text: str = ""


_FILE_JSON = (
    r'{"path": "/tmp/ä b.py", "text": "if a < b:\n    print(\"</p>\", '
    r"""'x')\n\treturn {\"k\": [1, 2]}  # \\d+ é 🌍", "tags": ["a,b", "c}d"]}"""
)
_PARIS_JSON = '{"city": "Paris", "days": 3}'
_Q = '<|"|>'

GOOD = [
    Good(
        "hermes",
        '<tool_call>\n{"name": "get_weather", "arguments": ' + _PARIS_JSON + "}\n</tool_call>",
        [PARIS],
    ),
    Good(
        "hermes",
        'Let me look.\n<tool_call>\n{"name": "write_file", "arguments": '
        + _FILE_JSON
        + '}\n</tool_call>\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
        [FILE, NOW],
        "Let me look.",
    ),
    # B03: nothing between two calls
    Good(
        "hermes",
        '<tool_call>{"name": "now", "arguments": {}}</tool_call><tool_call>{"name": "get_weather", "arguments": '
        + _PARIS_JSON
        + "}</tool_call>",
        [NOW, PARIS],
    ),
    Good("hermes", '<tool_call>{"function": {"name": "now", "arguments": "{}"}}</tool_call>', [NOW]),
    Good(
        "hermes",
        '<tool_call>{"type": "function", "function": {"name": "get_weather", "arguments": '
        + _PARIS_JSON
        + "}}</tool_call>",
        [PARIS],
    ),
    Good(
        "hermes",
        r'<tool_call>{"name": "get_weather", "arguments": "{\"city\": \"Paris\", \"days\": 3}"}</tool_call>',
        [PARIS],
    ),
    Good(
        "hermes", '<tool_call>{"arguments": ' + _PARIS_JSON + ', "name": "get_weather"}</tool_call>', [PARIS]
    ),
    Good("hermes", '{"name": "get_weather", "arguments": ' + _PARIS_JSON + "}", [PARIS]),
    Good(
        "qwen_xml",
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n3\n"
        "</parameter>\n</function>\n</tool_call>",
        [PARIS],
    ),
    Good(
        "qwen_xml",
        "I write it.\n\n<tool_call>\n<function=write_file>\n<parameter=path>\n/tmp/ä b.py\n</parameter>\n"
        "<parameter=text>\n" + CODE + "\n</parameter>\n<parameter=tags>\n" + '["a,b", "c}d"]'
        "\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
        [FILE, NOW],
        "I write it.",
    ),
    Good("qwen_xml", "<function=now>\n</function>", [NOW]),
    Good(
        "qwen_xml",  # markup inside a value
        "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</parameter>\n<parameter=text>\n"
        "see </tool_call> and <think> & &amp; <b>\n</parameter>\n</function>\n</tool_call>",
        [("write_file", {"path": "a", "text": "see </tool_call> and <think> & &amp; <b>"})],
    ),
    Good(
        "seed",
        "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Paris</parameter>\n<parameter=days>3</parameter>"
        "\n</function>\n</seed:tool_call>",
        [PARIS],
    ),
    Good(
        "minicpm",
        '<function name="get_weather"><param name="city">Paris</param><param name="days">3</param></function>',
        [PARIS],
    ),
    Good(
        "minicpm",
        'Now:\n<function name="write_file"><param name="path">/tmp/ä b.py</param><param name="text"><![CDATA['
        + CODE
        + ']]></param><param name="tags">["a,b", "c}d"]</param></function>\n<function name="now"></function>',
        [FILE, NOW],
        "Now:",
    ),
    Good(
        "minicpm",
        '<function name="write_file"><param name="path">a &lt;b&gt;</param><param name="text">'
        "<![CDATA[x</param></function>y]]></param></function>",
        [("write_file", {"path": "a <b>", "text": "x</param></function>y"})],
    ),
    Good(
        "glm",
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n"
        "<arg_value>3</arg_value>\n</tool_call>",
        [PARIS],
    ),
    Good(
        "glm",
        "\n<tool_call>write_file<arg_key>path</arg_key><arg_value>/tmp/ä b.py</arg_value><arg_key>text</arg_key>"
        "<arg_value>"
        + CODE
        + '</arg_value><arg_key>tags</arg_key><arg_value>["a,b", "c}d"]</arg_value></tool_call>'
        "\n<tool_call>now\n</tool_call>",
        [FILE, NOW],
    ),
    Good("llama3", '{"name": "get_weather", "parameters": ' + _PARIS_JSON + "}", [PARIS]),
    Good("llama3", '<|python_tag|>{"name": "write_file", "parameters": ' + _FILE_JSON + "}", [FILE]),
    Good(
        "llama3",
        '{"name": "now", "parameters": {}}; {"name": "get_weather", "parameters": ' + _PARIS_JSON + "}",
        [NOW, PARIS],
    ),
    Good("llama3", '<|python_tag|>get_weather.call(city="Paris", days=3)', [PARIS]),
    Good("llama3", "<function=get_weather>" + _PARIS_JSON + "</function>", [PARIS]),
    Good("mistral_list", '[TOOL_CALLS] [{"name": "get_weather", "arguments": ' + _PARIS_JSON + "}]", [PARIS]),
    Good(
        "mistral_list",
        '[TOOL_CALLS][{"name": "write_file", "arguments": ' + _FILE_JSON + ', "id": "123456789"}, '
        '{"name": "now", "arguments": {}}]',
        [FILE, NOW],
    ),
    Good("mistral", "[TOOL_CALLS]get_weather[ARGS]" + _PARIS_JSON, [PARIS]),
    Good(
        "mistral",
        "One moment. [TOOL_CALLS]now[CALL_ID]a1b2c3d4e[ARGS]{}[TOOL_CALLS]write_file[ARGS]" + _FILE_JSON,
        [NOW, FILE],
        "One moment.",
    ),
    # B05: prose behind a call that has no end mark
    Good(
        "mistral",
        "[TOOL_CALLS]get_weather" + _PARIS_JSON + "\n\nI have asked for it.",
        [PARIS],
        "I have asked for it.",
    ),
    Good(
        "gemma4",
        f"<|tool_call>call:get_weather{{city:{_Q}Paris{_Q},days:3}}<tool_call|>",
        [PARIS],
    ),
    Good(
        "gemma4",
        f"Yes.<|tool_call>call:write_file{{path:{_Q}/tmp/ä b.py{_Q},tags:[{_Q}a,b{_Q},{_Q}c}}d{_Q}],text:{_Q}"
        + CODE
        + f"{_Q}}}<tool_call|><|tool_call>call:now{{}}<tool_call|>",
        [FILE, NOW],
        "Yes.",
    ),
    Good(
        "gemma4",
        f"<|tool_call>call:now{{}}call:get_weather{{city:{_Q}Paris{_Q},days:3}}<tool_call|>",
        [NOW, PARIS],
    ),
    Good(
        "gemma4",
        f"<|tool_call>call:write_file{{path:{_Q}a{_Q},text:null,meta:{{k:{_Q}v{_Q},deep:{{n:1.5,ok:true}}}}}}<tool_call|>",
        [("write_file", {"path": "a", "text": None, "meta": {"k": "v", "deep": {"n": 1.5, "ok": True}}})],
    ),
    Good(
        "functiongemma",
        "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:3}<end_function_call>",
        [PARIS],
    ),
    Good("fenced", '```tool_code\nget_weather(city="Paris", days=3)\n```', [PARIS]),
    Good("fenced", '```tool_code\nprint(get_weather("Paris", 3))\n```', [PARIS]),
    Good("fenced", '```json\n{"name": "get_weather", "arguments": ' + _PARIS_JSON + "}\n```", [PARIS]),
    Good(
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
        + _PARIS_JSON
        + "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>",
        [PARIS, NOW],
    ),
    Good(
        "deepseek_v3_1",
        "Well.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>write_file<｜tool▁sep｜>"
        + _FILE_JSON
        + "<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        [FILE, NOW],
        "Well.",
    ),
    Good(
        "deepseek_v4",
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Paris'
        '</｜DSML｜parameter>\n<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        '<｜DSML｜invoke name="now">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',
        [PARIS, NOW],
    ),
    Good(
        "deepseek_v3_2",
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Paris'
        '</｜DSML｜parameter>\n<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        "</｜DSML｜function_calls>",
        [PARIS],
    ),
    Good(
        "minimax",
        '<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="city">Paris</parameter>\n'
        '<parameter name="days">3</parameter>\n</invoke>\n<invoke name="now">\n</invoke>\n</minimax:tool_call>',
        [PARIS, NOW],
    ),
    Good(
        "kimi",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
        + _PARIS_JSON
        + "<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
        "<|tool_calls_section_end|>",
        [PARIS, NOW],
    ),
    Good(
        "lfm2", '<|tool_call_start|>[get_weather(city="Paris", days=3), now()]<|tool_call_end|>', [PARIS, NOW]
    ),
    Good(
        "phi4",
        '<|tool_call|>[{"name": "get_weather", "arguments": ' + _PARIS_JSON + "}]<|/tool_call|>",
        [PARIS],
    ),
    Good(
        "granite",
        '<|tool_call|>[{"name": "write_file", "arguments": '
        + _FILE_JSON
        + '}, {"name": "now", "arguments": {}}]',
        [FILE, NOW],
    ),
    Good(
        "nemotron",
        '<TOOLCALL>[{"name": "get_weather", "arguments": ' + _PARIS_JSON + "}]</TOOLCALL>",
        [PARIS],
    ),
    Good(
        "command",
        '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "get_weather", "parameters": '
        + _PARIS_JSON
        + "}\n]<|END_ACTION|>",
        [PARIS],
    ),
    Good(
        "apriel",
        '<tool_calls>[{"name": "get_weather", "arguments": ' + _PARIS_JSON + "}]</tool_calls>",
        [PARIS],
    ),
    Good(
        "minimax_m1",
        'Look.\n<tool_calls>\n{"name": "write_file", "arguments": '
        + _FILE_JSON
        + '}\n{"name": "now", "arguments": {}}\n</tool_calls>',
        [FILE, NOW],
        "Look.",
    ),
    Good(
        "gigachat_3",
        'I look.<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "get_weather", "arguments": '
        + _PARIS_JSON
        + "}<|message_sep|>\n\n",
        [PARIS],
        "I look.",
    ),
    Good(
        "gigachat_3",
        '<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "write_file", "arguments": '
        + _FILE_JSON
        + "}",
        [FILE],
    ),
    Good("gigachat", '<|function_call|>{"name": "get_weather", "arguments": ' + _PARIS_JSON + "}", [PARIS]),
    Good(
        "solar",
        "<|tool_calls|><|tool_call:begin|>a1<|tool_call:name|>write_file<|tool_call:args|>"
        + _FILE_JSON
        + "<|tool_call:end|><|tool_call:begin|>b2<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|><|calls|>",
        [FILE, NOW],
    ),
    Good(
        "lfm2",  # line breaks in strings, as the family's template writes them
        "<|tool_call_start|>[write_file(path='a', text=\"one\n'two'\n\")]<|tool_call_end|>",
        [("write_file", {"path": "a", "text": "one\n'two'\n"})],
    ),
    Good(
        "harmony",
        "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
        + _PARIS_JSON
        + "<|call|>",
        [PARIS],
    ),
    Good(
        "harmony",
        "<|channel|>final<|message|>Soon.<|end|><|start|>assistant to=functions.write_file<|channel|>commentary json"
        "<|message|>" + _FILE_JSON,
        [FILE],
        "Soon.",
    ),
]
