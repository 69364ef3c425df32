# ruff: noqa: E501 - replies are quoted as they come
"""A hundred broken replies, and what should come of each: calls (and perhaps text beside them), or the reply
itself as text. `TEXT` stands for the latter. Faults are those that small models make."""

from __future__ import annotations

from typing import Any

TEXT = None
P: list[tuple[str, Any]] = [("get_weather", {"city": "Paris"})]
P3: list[tuple[str, Any]] = [("get_weather", {"city": "Paris", "days": 3})]
NOW: list[tuple[str, Any]] = [("now", {})]
OPEN, CLOSE = "<tool_call>", "</tool_call>"


def detailed(value: Any) -> list[tuple[str, Any]]:
    return [("get_weather", {"city": "Paris", "detailed": value})]


def city(name: str) -> list[tuple[str, Any]]:
    return [("get_weather", {"city": name})]


# (format, reply, calls or TEXT)
BROKEN: list[tuple[str, str, list[tuple[str, Any]] | None]] = [
    # fences and prose inside the markup
    ("hermes", OPEN + '\n```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```\n' + CLOSE, P),
    ("hermes", OPEN + '\n```\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```' + CLOSE, P),
    ("hermes", OPEN + '\nHere is the call: {"name": "get_weather", "arguments": {"city": "Paris"}}\n' + CLOSE, P),
    ("hermes", OPEN + ' json {"name": "get_weather", "arguments": {"city": "Paris"}} ' + CLOSE, P),
    ("hermes", OPEN + OPEN + '{"name": "get_weather", "arguments": {"city": "Paris"}}' + CLOSE, P),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris"}}' + CLOSE + CLOSE, P),
    # quotes
    ("hermes", OPEN + "{'name': 'get_weather', 'arguments': {'city': 'Paris'}}" + CLOSE, P),
    ("hermes", OPEN + "{'name': 'get_weather', \"arguments\": {'city': \"Paris\"}}" + CLOSE, P),
    ("hermes", OPEN + "{'name': 'get_weather', 'arguments': {'city': 'L\\'Aquila'}}" + CLOSE, city("L'Aquila")),
    ("hermes", OPEN + "{'name': 'get_weather', 'arguments': {'city': 'L'Aquila'}}" + CLOSE, city("L'Aquila")),
    ("hermes", OPEN + "{'name': 'get_weather', 'arguments': {'city': 'the \"city\"'}}" + CLOSE, city('the "city"')),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "the "city""}}' + CLOSE, city('the "city"')),
    ("hermes", OPEN + '{name: "get_weather", arguments: {city: "Paris"}}' + CLOSE, P),
    ("hermes", OPEN + '{"name": get_weather, "arguments": {"city": "Paris"}}' + CLOSE, P),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": Paris}}' + CLOSE, P),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": Paris, "days": 3}}' + CLOSE, P3),
    # commas
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris",}}' + CLOSE, P),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris"},}' + CLOSE, P),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris",,"days": 3}}' + CLOSE, P3),
    ("hermes", OPEN + '{"name": "get_weather" "arguments": {"city": "Paris" "days": 3}}' + CLOSE, P3),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris"\n"days": 3}}' + CLOSE, P3),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {, "city": "Paris"}}' + CLOSE, P),
    # braces and ends
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris"}' + CLOSE, P),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris"' + CLOSE, P),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris' + CLOSE, P),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris"', P),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris', P),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris"}}', P),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris"}}}' + CLOSE, P),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris"}}</tool', P),
    ("hermes", OPEN + '[{"name": "get_weather", "arguments": {"city": "Paris"}}]' + CLOSE, P),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris"}}\n{"name": "now", "arguments": {}}' + CLOSE, P + NOW),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris"}}' + OPEN + '{"name": "now", "arguments": {}}', P + NOW),
    ("hermes", OPEN + '{"name": "now", "arguments": {', NOW),
    ("hermes", OPEN + '{"name": "now", "arguments": ', NOW),
    ("hermes", OPEN + '{"name": "now"', NOW),
    # Python's words
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris", "detailed": True}}' + CLOSE, detailed(True)),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris", "detailed": False}}' + CLOSE, detailed(False)),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris", "detailed": None}}' + CLOSE, detailed(None)),
    ("hermes", OPEN + "{'name': 'get_weather', 'arguments': {'city': 'True', 'detailed': True}}" + CLOSE, [("get_weather", {"city": "True", "detailed": True})]),
    # the envelope
    ("hermes", OPEN + '{"arguments": {"name": "get_weather", "city": "Paris"}}' + CLOSE, P),
    ("hermes", OPEN + '{"arguments": {"name": "get_weather", "arguments": {"city": "Paris"}}}' + CLOSE, P),
    ("hermes", OPEN + '{"function": "get_weather", "arguments": {"city": "Paris"}}' + CLOSE, P),
    ("hermes", OPEN + '{"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}' + CLOSE, P),
    ("hermes", OPEN + '{"function": {"name": "get_weather"}, "arguments": {"city": "Paris"}}' + CLOSE, P),
    ("hermes", OPEN + '{"name": "get_weather", "parameters": {"city": "Paris"}}' + CLOSE, P),
    ("hermes", OPEN + '{"name": "get_weather", "args": {"city": "Paris"}}' + CLOSE, P),
    ("hermes", OPEN + '{"tool": "get_weather", "input": {"city": "Paris"}}' + CLOSE, P),
    ("hermes", OPEN + '{"tool_name": "get_weather", "parameters": {"city": "Paris"}}' + CLOSE, P),
    ("hermes", OPEN + '{"id": 7, "type": "function", "name": "get_weather", "arguments": {"city": "Paris"}}' + CLOSE, P),
    ("hermes", OPEN + '{"name": "get_weather", "city": "Paris"}' + CLOSE, P),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}' + CLOSE, P),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": "{\'city\': \'Paris\'}"}' + CLOSE, P),
    ("hermes", OPEN + '{"name": "now", "arguments": ""}' + CLOSE, NOW),
    ("hermes", OPEN + '{"name": "now", "arguments": null}' + CLOSE, NOW),
    ("hermes", OPEN + '{"name": "now"}' + CLOSE, NOW),
    ("hermes", OPEN + '{"name": "now", "arguments": {}, "reason": "because"}' + CLOSE, NOW),
    # strings
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "New\nYork"}}' + CLOSE, city("New\nYork")),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "New\tYork"}}' + CLOSE, city("New\tYork")),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "C:\\dir"}}' + CLOSE, city("C:\\dir")),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "\\u00zz"}}' + CLOSE, city("\\u00zz")),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "a </tool_call> b"}}' + CLOSE, city("a </tool_call> b")),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": {"city": "<think>x</think>"}}' + CLOSE, city("<think>x</think>")),
    # a family's markup from another family's model
    ("hermes", OPEN + "\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n" + CLOSE, P),
    ("hermes", OPEN + "get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n" + CLOSE, P),
    ("qwen_xml", OPEN + '\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n' + CLOSE, P),
    ("llama3", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris"}}' + CLOSE, P),
    ("mistral", OPEN + '{"name": "get_weather", "arguments": {"city": "Paris"}}' + CLOSE, P),
    # no call: text
    ("hermes", OPEN + CLOSE, TEXT),
    ("hermes", OPEN, TEXT),
    ("hermes", OPEN + "get_weather(Paris)" + CLOSE, TEXT),
    ("hermes", OPEN + '{"name": "delete_everything", "arguments": {}}' + CLOSE, TEXT),
    ("hermes", OPEN + '{"city": "Paris"}' + CLOSE, TEXT),
    ("hermes", OPEN + '{"name": "get_weather", "town": "Paris"}' + CLOSE, TEXT),
    ("hermes", OPEN + '{"name": ["get_weather"], "arguments": {}}' + CLOSE, TEXT),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": [1, 2]}' + CLOSE, TEXT),
    ("hermes", OPEN + '{"name": "get_weather", "arguments": "Paris"}' + CLOSE, TEXT),
    ("hermes", OPEN + '{"name"; "get_weather"}' + CLOSE, TEXT),
    ("hermes", "{}", TEXT),
    ("hermes", "{", TEXT),
    # XML
    ("qwen_xml", OPEN + "\n<function=get_weather>\n<parameter=city>\nParis\n</function>\n" + CLOSE, P),
    ("qwen_xml", OPEN + "\n<function=get_weather>\n<parameter=city>\nParis\n<parameter=days>\n3\n</parameter>\n</function>\n" + CLOSE, P3),
    ("qwen_xml", OPEN + "\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n" + CLOSE, P),
    ("qwen_xml", OPEN + "\n<function=get_weather>\n<parameter=city>\nParis", P),
    ("qwen_xml", "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>", P),
    ("qwen_xml", "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n" + CLOSE, P),
    ("qwen_xml", OPEN + '\n<function="get_weather">\n<parameter="city">\nParis\n</parameter>\n</function>\n' + CLOSE, P),
    ("qwen_xml", OPEN + '\n<function name="get_weather">\n<parameter name="city">Paris</parameter>\n</function>\n' + CLOSE, P),
    ("qwen_xml", OPEN + "\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=detailed>\nTrue\n</parameter>\n</function>\n" + CLOSE, detailed(True)),
    ("qwen_xml", OPEN + "\n<function=get_weather>\njust Paris\n</function>\n" + CLOSE, TEXT),
    ("qwen_xml", OPEN + "\n<function=>\n</function>\n" + CLOSE, TEXT),
    ("minicpm", '<function name="get_weather"><param name="city">Paris</param>', P),
    ("minicpm", "<function name=\"get_weather\"><param name='city'>Paris</param></function>", P),
    ("minicpm", '<function name="get_weather"><param name="city"><![CDATA[Paris]]></function>', P),
    ("minicpm", '<function name="none"></function>', TEXT),
    ("glm", OPEN + "get_weather<arg_key>city</arg_key><arg_value>Paris" + CLOSE, P),
    ("glm", OPEN + "get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>", P),
    ("glm", OPEN + "get_weather\n<arg_key>city</arg_key>" + CLOSE, TEXT),
    # headers and lists
    ("mistral", '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"', P),
    ("mistral", "[TOOL_CALLS]get_weather[ARGS]{'city': 'Paris',}", P),
    ("mistral", '[TOOL_CALLS]get_weather {"city": "Paris"}', P),
    ("mistral", "[TOOL_CALLS]now", NOW),
    ("mistral", "[TOOL_CALLS]nothing[ARGS]{}", TEXT),
    ("mistral_list", '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}', P),
    ("mistral_list", '[TOOL_CALLS] {"name": "get_weather", "arguments": {"city": "Paris"}}', P),
    ("granite", '<|tool_call|>{"name": "get_weather", "arguments": {"city": "Paris"}}', P),
    ("granite", '<|tool_call|> [] ', TEXT),
    ("phi4", '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]', P),
    ("deepseek", '<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Paris"}', P),
    ("deepseek", '<｜tool▁calls▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Paris"}\n```', P),
    ("deepseek_v3_1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜><｜tool▁call▁end｜>", NOW),
    ("gemma4", '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>}', P),
    ("gemma4", '<|tool_call>call:get_weather{city:<|"|>Paris', P),
    ("gemma4", '<|tool_call>call:get_weather{"city":"Paris"}<tool_call|>', P),
    ("gemma4", "<|tool_call>call:get_weather{city:Paris,days:3}<tool_call|>", P3),
    ("gemma4", "<|tool_call>get_weather{city:'Paris'}<tool_call|>", P),
    ("gemma4", "<|tool_call>call:other{}<tool_call|>", TEXT),
    ("fenced", '```tool_code\nget_weather(city="Paris"\n```', TEXT),
    ("fenced", "```tool_code\nimport os\n```", TEXT),
    ("fenced", '```json\n{"city": "Paris"}\n```', TEXT),
    ("lfm2", "<|tool_call_start|>[get_weather(city=os.getcwd())]<|tool_call_end|>", TEXT),
    ("lfm2", '<|tool_call_start|>get_weather(city="Paris")<|tool_call_end|>', P),
    ("llama3", '<|python_tag|>get_weather(city="Paris")', P),
    ("llama3", "<|python_tag|>print(1)", TEXT),
    ("llama3", '{"name": "get_weather", "parameters": {"city": "Paris"}} ', P),
    ("llama3", '{"type": "function", "name": "get_weather", "parameters": {"city": "Paris"}', P),
]  # fmt: skip
