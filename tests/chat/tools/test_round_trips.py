"""An assistant's turn through its family's template and back: what a model that imitates its template
writes is read as the calls that were rendered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.chat import families, tool_families
from tests.chat.readings import TOOLS, read
from tests.chat.tools.good import CODE

from stoker.chat.reader import reading_for
from stoker.chat.shaping import render_conversation
from stoker.chat.template import ChatTemplate

FAMILIES = {
    "chatml_tools": families.CHATML_TOOLS,
    "xml_tools": families.XML_TOOLS,
    "llama3": families.LLAMA3,
    "mistral": families.MISTRAL,
    **tool_families.ALL,
}
ENDS = ("<|im_end|>", "<|eot_id|>", "</s>", "<turn|>", "<｜end▁of▁sentence｜>", "<|end|>", "[e~[", "<|call|>")
OFFERED = [
    {"type": "function", "function": {"name": tool.name, "parameters": tool.parameters}} for tool in TOOLS
]
ARGUMENTS: list[tuple[str, dict[str, Any]]] = [
    ("get_weather", {"city": "Paris", "days": 3, "detailed": True}),
    ("get_weather", {"city": "12"}),
    ("write_file", {"path": "/tmp/ä b.py", "text": CODE, "tags": ["a,b", "c}d"]}),
    ("write_file", {"path": "", "text": "\n  two\n\n", "meta": {"k": {"deep": [1, 2.5, None, True]}}}),
    ("write_file", {"path": "a", "text": "[1, 2]", "tags": []}),
    ("now", {}),
]


def turn(calls: list[tuple[str, dict[str, Any]]], content: str = "") -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {
                "id": f"call_{number:024}",  # Mistral's templates take nine letters only
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for number, (name, arguments) in enumerate(calls)
        ],
    }


def reply_of(template: ChatTemplate, message: dict[str, Any]) -> tuple[str, str]:
    """(the prompt, what the model has to write to get `message` into the history)."""
    user = {"role": "user", "content": "Go on."}
    prompt = render_conversation(template, [user], OFFERED)
    whole = render_conversation(template, [user, message], OFFERED, add_generation_prompt=False)
    opened = prompt
    while not whole.startswith(opened):  # a prompt may open thinking, and call its role differently
        opened = opened[:-1]
    reply = whole[len(opened) :]
    for end in ENDS:
        reply = reply.rstrip().removesuffix(end)
    return prompt, reply


@pytest.mark.parametrize("name_and_arguments", ARGUMENTS, ids=lambda found: found[0])
@pytest.mark.parametrize("family", FAMILIES)
def test_one_call(family: str, name_and_arguments: tuple[str, dict[str, Any]]) -> None:
    template = ChatTemplate(FAMILIES[family], families.SPECIAL)
    prompt, reply = reply_of(template, turn([name_and_arguments]))
    how = reading_for(template.sources.values(), prompt, TOOLS)
    assert how is not None
    result = read(how, [reply])
    assert result.calls == [name_and_arguments], reply
    assert (result.text, result.reasoning) == ("", ""), reply
    assert read(how, reply) == result


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("llama3", "harmony")])
def test_two_calls(family: str) -> None:
    template = ChatTemplate(FAMILIES[family], families.SPECIAL)
    prompt, reply = reply_of(template, turn(ARGUMENTS[:1] + ARGUMENTS[2:3]))
    how = reading_for(template.sources.values(), prompt, TOOLS)
    assert how is not None
    assert read(how, reply).calls == ARGUMENTS[:1] + ARGUMENTS[2:3]
