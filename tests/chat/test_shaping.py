"""Faults B10, B12 and B14, over every family of templates."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

import pytest

from stoker.chat.messages import normalize_messages
from stoker.chat.shaping import fold_system_turns, render_conversation
from stoker.chat.template import ChatTemplate
from stoker.errors import TemplateError

from . import conversations, families


def render(family: str, messages: list[dict[str, Any]], **kwargs: Any) -> str:
    template = ChatTemplate(families.ALL.get(family, family), families.SPECIAL)
    return render_conversation(template, normalize_messages(messages), **kwargs)


@pytest.mark.parametrize("tools", [None, conversations.TOOLS], ids=["no tools", "tools"])
@pytest.mark.parametrize("family", families.ALL)
def test_b10_no_content_beside_calls(family: str, tools: Any) -> None:
    rounds = [conversations.tool_round('{"place": "Ulm"}', content) for content in (None, "", [], "absent")]
    del rounds[3][1]["content"]
    texts = {render(family, messages, tools=tools) for messages in rounds}
    assert len(texts) == 1
    text = texts.pop()
    assert "get_weather" in text
    assert "Ulm" in text
    assert "12 °C" in text
    assert "None" not in text
    assert "null" not in text


@pytest.mark.parametrize("family", families.ALL)
def test_b10_content_beside_calls_is_kept(family: str) -> None:
    if family in ("llama3", "mistral", "deepseek"):
        pytest.skip("the format has no room for text beside a call")
    text = render(family, conversations.tool_round('{"place": "Ulm"}', "Let me look."))
    assert "Let me look." in text
    assert "Ulm" in text


ARGUMENTS = {
    "nested": '{"place": {"lat": [1, 2.5, -3e2], "name": "Köln 科隆 🌍", "none": null}, "on": true}',
    "escapes": '{"text": "a \\"b\\" \\\\ <&> \\n c"}',
    "empty": "",
    "no arguments": "{}",
}
BROKEN = {
    "truncated": '{"place": "Ulm", "days": [1, 2',
    "prose": "Ulm, please",
    "single quotes": "{'place': 'Ulm'}",
    "array": '["Ulm", 3]',
    "number": "123456",
    "deep": "[" * 5000 + "1" + "]" * 5000,
    "long number": '{"n": ' + "9" * 5000 + "}",
}


@pytest.mark.parametrize("arguments", ARGUMENTS.values(), ids=ARGUMENTS)
@pytest.mark.parametrize("family", families.ALL)
def test_b12_string_and_object_render_the_same(family: str, arguments: str) -> None:
    as_text = render(family, conversations.tool_round(arguments))
    value = json.loads(arguments or "{}")
    as_object = render(family, conversations.tool_round(value))
    if family == "deepseek":  # takes JSON text, which stays as the model wrote it
        assert arguments in as_text
    else:
        assert as_text == as_object
    assert ("科隆 🌍" in arguments) == ("科隆 🌍" in as_text)


@pytest.mark.parametrize("arguments", BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("family", families.ALL)
def test_b12_broken_arguments_still_render(family: str, arguments: str) -> None:
    text = render(family, conversations.tool_round(arguments))
    assert "get_weather" in text
    spelled = (arguments, json.dumps(arguments, ensure_ascii=False)[1:-1])
    assert any(words in text for words in spelled)


def late(*roles: str) -> list[dict[str, Any]]:
    return [{"role": role, "content": f"{role[0].upper()}{i}"} for i, role in enumerate(roles)]


B14 = late("system", "user", "assistant", "system", "user")


@pytest.mark.parametrize("family", families.ALL)
def test_b14_late_system_turn(family: str) -> None:
    """It arrives, and everything before it stays as it was for the previous request."""
    before = render(family, B14[:2])
    text = render(family, B14)
    assert text.count("S3") == 1
    assert "S0" in text
    # The first request's prompt up to the generation prompt, and the answer that followed.
    shared = len(render(family, B14[:3], add_generation_prompt=False))
    closed = render(family, B14[:3], add_generation_prompt=False)
    if family == "phi3":  # writes eos_token where the conversation ends, even before a further turn
        closed, shared = closed.removesuffix("</s>"), shared - len("</s>")
    if family == "mistral":  # its system text stands in the last user turn, wherever that is
        assert text.index("A2") < text.index("S3") < text.index("U4")
        return
    assert text[:shared] == closed
    assert text.index("S3") >= shared
    assert text.index("S3") < text.index("U4")
    assert before.startswith(closed[: closed.index("U1") + 2])


def test_b14_templates_that_take_it_get_it() -> None:
    assert "<|im_start|>system\nS3<|im_end|>" in render("chatml", B14)


def test_b14_folded_into_the_next_user_turn() -> None:
    assert "<|im_start|>user\nS3\n\nU4<|im_end|>" in render("chatml_tools", B14)
    assert "system\nS0<|im_end|>" in render("chatml_tools", B14)


def test_a_refused_leading_system_turn_is_folded_too() -> None:
    assert render("gemma", conversations.SYSTEM) == (
        "<s><start_of_turn>user\nAnswer in one line.\n\nName three rivers.<end_of_turn>\n"
        "<start_of_turn>model\n"
    )


def test_a_refusal_that_the_probe_did_not_meet() -> None:
    """This one takes late system turns, except directly behind a user."""
    template = (
        "{% for m in messages %}"
        "{% if m.role == 'system' and loop.index0 and messages[loop.index0 - 1].role == 'user' %}"
        "{{ raise_exception('not there') }}{% endif %}{{ m.role }}:{{ m.content }};{% endfor %}"
    )
    assert ChatTemplate(template).traits().late_system
    assert render(template, late("user", "system")) == "user:U0\n\nS1;"


@pytest.mark.parametrize(
    ("roles", "folded"),
    [
        (("user", "assistant", "system", "user"), "user:U0 assistant:A1 user:S2|U3"),
        (("user", "assistant", "system", "system", "user"), "user:U0 assistant:A1 user:S2|S3|U4"),
        (("user", "assistant", "system"), "user:U0 assistant:A1 user:S2"),
        (("user", "system"), "user:U0|S1"),
        (("user", "system", "assistant", "user"), "user:U0|S1 assistant:A2 user:U3"),
        (("user", "assistant", "tool", "system"), "user:U0 assistant:A1 tool:T2 user:S3"),
        (("system", "system", "user"), "system:S0|S1 user:U2"),
        (("system", "user", "system", "user"), "system:S0 user:U1 user:S2|U3"),
        (("system",), "system:S0"),
        (("system", "assistant"), "system:S0 assistant:A1"),
    ],
)
def test_where_late_system_text_goes(roles: tuple[str, ...], folded: str) -> None:
    messages = late(*roles)
    before = copy.deepcopy(messages)
    result = fold_system_turns(messages, keep_leading=True)
    shown = " ".join(f"{m['role']}:{m['content']}" for m in result).replace("\n\n", "|")
    assert shown == folded
    assert messages == before


def test_without_a_leading_system_turn() -> None:
    assert fold_system_turns(late("system", "user"), keep_leading=False) == [
        {"role": "user", "content": "S0\n\nU1"}
    ]
    assert fold_system_turns(late("system"), keep_leading=False) == [{"role": "user", "content": "S0"}]


def test_folding_is_stable_over_requests() -> None:
    """Each request of a growing conversation repeats the prompt before it."""
    roles = ("user", "system", "assistant", "user", "assistant", "system", "user", "assistant", "system")
    messages = late(*roles)
    ends = [i for i in range(1, len(roles) + 1) if i == len(roles) or roles[i] == "assistant"]
    prompts = [render("chatml_tools", messages[:end]) for end in ends]
    for shorter, longer in itertools.pairwise(prompts):
        assert longer.startswith(shorter)


def test_tool_results_for_templates_without_tools() -> None:
    messages = conversations.tool_round('{"place": "Ulm"}')
    messages[1]["tool_calls"].append(conversations.call("{}", "stop", "abcdefgh2"))
    messages += [
        {"role": "tool", "tool_call_id": "abcdefgh2", "content": "stopped"},
        {"role": "user", "content": "And now?"},
    ]
    text = render("gemma", messages)
    assert text == (
        "<s><start_of_turn>user\nHow is it in Köln?<end_of_turn>\n"
        "<start_of_turn>model\n<tool_call>\n"
        '{"name": "get_weather", "arguments": {"place": "Ulm"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "stop", "arguments": {}}\n</tool_call><end_of_turn>\n'
        "<start_of_turn>user\n<tool_response>\n12 °C\n</tool_response>\n\n"
        "<tool_response>\nstopped\n</tool_response>\n\nAnd now?<end_of_turn>\n<start_of_turn>model\n"
    )


def test_text_as_parts() -> None:
    text = render(families.PARTS_ONLY, conversations.SYSTEM)
    assert text == "<|system|>Answer in one line.</s>\n<|user|>Name three rivers.</s>\n<|assistant|>"


@pytest.mark.parametrize("family", families.ALL)
@pytest.mark.parametrize("messages", [conversations.USER, conversations.LONG[1:2] + conversations.LONG[2:]])
def test_plain_conversations_are_left_alone(family: str, messages: list[dict[str, Any]]) -> None:
    template = ChatTemplate(families.ALL[family], families.SPECIAL)
    assert render(family, messages) == template.render(messages)


def test_b16_the_first_refusal_is_reported() -> None:
    with pytest.raises(TemplateError, match=r"^prompt build failed: Conversation roles must alternate"):
        render("gemma", late("user", "user"))
    with pytest.raises(TemplateError, match=r"^prompt build failed: no, never$"):
        render("{{ raise_exception('no, never') }}", B14)


BARE_TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"properties": {"place": {"type": "string"}}}},
}
ASKS_FOR_DESCRIPTIONS = """{% for tool in tools or [] %}{% set f = tool.function %}
{{- f.name + ': ' + f.description }}
{% for key, value in f.parameters.properties.items() %}{{ key + ' - ' + value.description }}
{% endfor %}{% endfor %}{% for m in messages %}{{ m.role ~ ': ' ~ m.content }}
{% endfor %}"""


def test_tools_without_descriptions() -> None:
    """Both are optional on the wire; templates read them without asking."""
    user = [{"role": "user", "content": "hi"}]
    text = render(ASKS_FOR_DESCRIPTIONS, user, tools=[BARE_TOOL])
    assert text == "look: \nplace - \nuser: hi\n"
    no_parameters = {"type": "function", "function": {"name": "look"}}
    assert render(ASKS_FOR_DESCRIPTIONS, user, tools=[no_parameters]) == "look: \nuser: hi\n"
    # A template that does without gets the tool as it was sent.
    assert "description" not in render("chatml_tools", user, tools=[BARE_TOOL]).lower()


IDS_ONLY = """{% for m in messages %}{{ '<' ~ m.role ~ '>' ~ (m.content or '') }}
{%- for call in m.tool_calls or [] %}{{ '[' ~ call.id ~ ' ' ~ call.function.arguments | tojson ~ ']' }}
{%- endfor %}
{%- if m.tool_call_id %}{{ '(' ~ m.tool_call_id ~ ')' }}{% endif %}{% endfor %}"""


def test_a_template_that_writes_only_ids_gets_names_in_them() -> None:
    """Kimi K2.5: the model reads, and then writes, `functions.NAME:NUMBER`."""
    first = {
        "role": "assistant",
        "tool_calls": [
            conversations.call("{}", "get_weather", "call_1"),
            conversations.call("{}", "stop", "call_2"),
        ],
    }
    messages = [
        *conversations.USER,
        first,
        {"role": "tool", "tool_call_id": "call_2", "content": "two"},
        {"role": "tool", "tool_call_id": "call_1", "content": "one"},
        {"role": "tool", "tool_call_id": "lost", "content": "other"},
        {"role": "assistant", "tool_calls": [conversations.call("{}", "stop", "call_3")]},
    ]
    text = render(IDS_ONLY, messages)
    assert "<assistant>[functions.get_weather:0 {}][functions.stop:1 {}]" in text
    assert "<tool>two(functions.stop:1)<tool>one(functions.get_weather:0)<tool>other(lost)" in text
    assert text.endswith("[functions.stop:2 {}]")
    # Where the name is written anyway, ids stay what they are.
    names = IDS_ONLY.replace("call.id", "call.function.name ~ call.id")
    assert "[stopcall_3 {}]" in render(names, messages)


# As three makers write types: a name that is in no table is a list of names to them, letter by letter.
SPELLS_TYPES = """{%- macro spell(type) -%}
{%- if type in ['string', 'integer'] %}{{ type }}
{%- elif type is iterable %}({% for t in type %}{{ spell(t) }} {% endfor %}){% endif %}
{%- endmacro -%}
{%- for tool in tools or [] %}{% for key, field in tool.function.parameters.properties.items() -%}
{{ key ~ ': ' ~ spell(field.type) ~ ', ' }}{% endfor %}{% endfor %}
{%- for m in messages %}{{ m.role ~ ': ' ~ m.content }}{% endfor %}"""


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (["string", "null"], "string"),
        (["null", "string", "integer"], "(string integer )"),
        ("null", "()"),
        (["null"], "()"),
        ("string", "string"),
    ],
)
def test_a_template_that_cannot_spell_null(kind: Any, written: str) -> None:
    function = {"name": "f", "parameters": {"properties": {"a": {"type": kind}}}}
    tools = [{"type": "function", "function": function}]
    before = copy.deepcopy(tools)
    text = render(SPELLS_TYPES, [{"role": "user", "content": "Hi"}], tools=tools)
    assert text.startswith(f"a: {written}, ")
    assert text.endswith("user: Hi")
    assert tools == before


def test_a_template_that_goes_round_in_circles_is_named_as_the_cause() -> None:
    circle = (
        "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ messages[0].content }}{% if tools %}{{ m(1) }}{% endif %}"
    )
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    with pytest.raises(TemplateError, match="the model's chat template calls itself without end"):
        render(circle, [{"role": "user", "content": "Hi"}], tools=tools)
