# ruff: noqa: E501 - replies are quoted as they come
"""A hundred broken replies, and what should come of each: calls (and perhaps text beside them), or the reply
itself as text. `TEXT` stands for the latter. Faults are those that small models make."""

from __future__ import annotations

from typing import Any

TEXT = None
P: list[tuple[str, Any]] = [("get_weather", {"city": "Paris"})]
P3: list[tuple[str, Any]] = [("get_weather", {"city": "Paris", "days": 3})]
NOW: list[tuple[str, Any]] = [("now", {})]
O, C = "<tool_call>", "</tool_call>"


def detailed(value: Any) -> list[tuple[str, Any]]:
    return [("get_weather", {"city": "Paris", "detailed": value})]


def city(name: str) -> list[tuple[str, Any]]:
    return [("get_weather", {"city": name})]


# (format, reply, calls or TEXT)
BROKEN: list[tuple[str, str, list[tuple[str, Any]] | None]] = [
    # fences and prose inside the markup
    ("hermes", O + '\n```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```\n' + C, P),
    ("hermes", O + '\n```\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```' + C, P),
    ("hermes", O + '\nHere is the call: {"name": "get_weather", "arguments": {"city": "Paris"}}\n' + C, P),
    ("hermes", O + ' json {"name": "get_weather", "arguments": {"city": "Paris"}} ' + C, P),
    ("hermes", O + O + '{"name": "get_weather", "arguments": {"city": "Paris"}}' + C, P),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris"}}' + C + C, P),
    # quotes
    ("hermes", O + "{'name': 'get_weather', 'arguments': {'city': 'Paris'}}" + C, P),
    ("hermes", O + "{'name': 'get_weather', \"arguments\": {'city': \"Paris\"}}" + C, P),
    ("hermes", O + "{'name': 'get_weather', 'arguments': {'city': 'L\\'Aquila'}}" + C, city("L'Aquila")),
    ("hermes", O + "{'name': 'get_weather', 'arguments': {'city': 'L'Aquila'}}" + C, city("L'Aquila")),
    ("hermes", O + "{'name': 'get_weather', 'arguments': {'city': 'the \"city\"'}}" + C, city('the "city"')),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "the "city""}}' + C, city('the "city"')),
    ("hermes", O + '{name: "get_weather", arguments: {city: "Paris"}}' + C, P),
    ("hermes", O + '{"name": get_weather, "arguments": {"city": "Paris"}}' + C, P),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": Paris}}' + C, P),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": Paris, "days": 3}}' + C, P3),
    # commas
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris",}}' + C, P),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris"},}' + C, P),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris",,"days": 3}}' + C, P3),
    ("hermes", O + '{"name": "get_weather" "arguments": {"city": "Paris" "days": 3}}' + C, P3),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris"\n"days": 3}}' + C, P3),
    ("hermes", O + '{"name": "get_weather", "arguments": {, "city": "Paris"}}' + C, P),
    # braces and ends
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris"}' + C, P),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris"' + C, P),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris' + C, P),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris"', P),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris', P),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris"}}', P),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris"}}}' + C, P),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris"}}</tool', P),
    ("hermes", O + '[{"name": "get_weather", "arguments": {"city": "Paris"}}]' + C, P),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris"}}\n{"name": "now", "arguments": {}}' + C, P + NOW),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris"}}' + O + '{"name": "now", "arguments": {}}', P + NOW),
    ("hermes", O + '{"name": "now", "arguments": {', NOW),
    ("hermes", O + '{"name": "now", "arguments": ', NOW),
    ("hermes", O + '{"name": "now"', NOW),
    # Python's words
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris", "detailed": True}}' + C, detailed(True)),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris", "detailed": False}}' + C, detailed(False)),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "Paris", "detailed": None}}' + C, detailed(None)),
    ("hermes", O + "{'name': 'get_weather', 'arguments': {'city': 'True', 'detailed': True}}" + C, [("get_weather", {"city": "True", "detailed": True})]),
    # the envelope
    ("hermes", O + '{"arguments": {"name": "get_weather", "city": "Paris"}}' + C, P),
    ("hermes", O + '{"arguments": {"name": "get_weather", "arguments": {"city": "Paris"}}}' + C, P),
    ("hermes", O + '{"function": "get_weather", "arguments": {"city": "Paris"}}' + C, P),
    ("hermes", O + '{"function": {"name": "get_weather", "arguments": {"city": "Paris"}}}' + C, P),
    ("hermes", O + '{"function": {"name": "get_weather"}, "arguments": {"city": "Paris"}}' + C, P),
    ("hermes", O + '{"name": "get_weather", "parameters": {"city": "Paris"}}' + C, P),
    ("hermes", O + '{"name": "get_weather", "args": {"city": "Paris"}}' + C, P),
    ("hermes", O + '{"tool": "get_weather", "input": {"city": "Paris"}}' + C, P),
    ("hermes", O + '{"tool_name": "get_weather", "parameters": {"city": "Paris"}}' + C, P),
    ("hermes", O + '{"id": 7, "type": "function", "name": "get_weather", "arguments": {"city": "Paris"}}' + C, P),
    ("hermes", O + '{"name": "get_weather", "city": "Paris"}' + C, P),
    ("hermes", O + '{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}' + C, P),
    ("hermes", O + '{"name": "get_weather", "arguments": "{\'city\': \'Paris\'}"}' + C, P),
    ("hermes", O + '{"name": "now", "arguments": ""}' + C, NOW),
    ("hermes", O + '{"name": "now", "arguments": null}' + C, NOW),
    ("hermes", O + '{"name": "now"}' + C, NOW),
    ("hermes", O + '{"name": "now", "arguments": {}, "reason": "because"}' + C, NOW),
    # strings
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "New\nYork"}}' + C, city("New\nYork")),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "New\tYork"}}' + C, city("New\tYork")),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "C:\\dir"}}' + C, city("C:\\dir")),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "\\u00zz"}}' + C, city("\\u00zz")),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "a </tool_call> b"}}' + C, city("a </tool_call> b")),
    ("hermes", O + '{"name": "get_weather", "arguments": {"city": "<think>x</think>"}}' + C, city("<think>x</think>")),
    # a family's markup from another family's model
    ("hermes", O + "\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n" + C, P),
    ("hermes", O + "get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n" + C, P),
    ("qwen_xml", O + '\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n' + C, P),
    ("llama3", O + '{"name": "get_weather", "arguments": {"city": "Paris"}}' + C, P),
    ("mistral", O + '{"name": "get_weather", "arguments": {"city": "Paris"}}' + C, P),
    # no call: text
    ("hermes", O + C, TEXT),
    ("hermes", O, TEXT),
    ("hermes", O + "get_weather(Paris)" + C, TEXT),
    ("hermes", O + '{"name": "delete_everything", "arguments": {}}' + C, TEXT),
    ("hermes", O + '{"city": "Paris"}' + C, TEXT),
    ("hermes", O + '{"name": "get_weather", "town": "Paris"}' + C, TEXT),
    ("hermes", O + '{"name": ["get_weather"], "arguments": {}}' + C, TEXT),
    ("hermes", O + '{"name": "get_weather", "arguments": [1, 2]}' + C, TEXT),
    ("hermes", O + '{"name": "get_weather", "arguments": "Paris"}' + C, TEXT),
    ("hermes", O + '{"name"; "get_weather"}' + C, TEXT),
    ("hermes", "{}", TEXT),
    ("hermes", "{", TEXT),
    # XML
    ("qwen_xml", O + "\n<function=get_weather>\n<parameter=city>\nParis\n</function>\n" + C, P),
    ("qwen_xml", O + "\n<function=get_weather>\n<parameter=city>\nParis\n<parameter=days>\n3\n</parameter>\n</function>\n" + C, P3),
    ("qwen_xml", O + "\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n" + C, P),
    ("qwen_xml", O + "\n<function=get_weather>\n<parameter=city>\nParis", P),
    ("qwen_xml", "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>", P),
    ("qwen_xml", "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n" + C, P),
    ("qwen_xml", O + '\n<function="get_weather">\n<parameter="city">\nParis\n</parameter>\n</function>\n' + C, P),
    ("qwen_xml", O + '\n<function name="get_weather">\n<parameter name="city">Paris</parameter>\n</function>\n' + C, P),
    ("qwen_xml", O + "\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=detailed>\nTrue\n</parameter>\n</function>\n" + C, detailed(True)),
    ("qwen_xml", O + "\n<function=get_weather>\njust Paris\n</function>\n" + C, TEXT),
    ("qwen_xml", O + "\n<function=>\n</function>\n" + C, TEXT),
    ("minicpm", '<function name="get_weather"><param name="city">Paris</param>', P),
    ("minicpm", "<function name=\"get_weather\"><param name='city'>Paris</param></function>", P),
    ("minicpm", '<function name="get_weather"><param name="city"><![CDATA[Paris]]></function>', P),
    ("minicpm", '<function name="none"></function>', TEXT),
    ("glm", O + "get_weather<arg_key>city</arg_key><arg_value>Paris" + C, P),
    ("glm", O + "get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>", P),
    ("glm", O + "get_weather\n<arg_key>city</arg_key>" + C, TEXT),
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
