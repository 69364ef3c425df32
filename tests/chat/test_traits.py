from __future__ import annotations

from typing import Any

import pytest

from stoker.chat.template import ChatTemplate
from stoker.chat.traits import EmptyContent, TemplateTraits

from . import families


def traits(template: str, with_tools: bool = False) -> TemplateTraits:
    return ChatTemplate(template, families.SPECIAL).traits(with_tools)


# What a reader of each template says; turn_end with the special tokens above.
EXPECTED: dict[str, dict[str, Any]] = {
    "chatml": {"leading_system": True, "late_system": True, "tool_calls": False, "tool_results": True},
    "chatml_tools": {
        "leading_system": True,
        "late_system": False,  # raises
        "tool_calls": True,
        "object_arguments": True,
        "turn_end": "<|im_end|>\n",
    },
    "xml_tools": {"tool_calls": True, "object_arguments": True, "text_arguments": False},
    "llama3": {"tool_calls": True, "text_arguments": True, "late_system": True, "turn_end": "<|eot_id|>"},
    "llama2": {"leading_system": True, "late_system": False, "turn_end": " </s>"},
    "mistral": {"leading_system": True, "late_system": False, "tool_calls": True, "tool_results": True},
    "gemma": {
        "leading_system": False,
        "late_system": False,
        "tool_calls": False,
        "turn_end": "<end_of_turn>\n",
    },
    "gemma3": {"leading_system": True, "late_system": False, "text_as_parts": False},
    "phi3": {"leading_system": True, "late_system": True, "tool_results": False, "turn_end": "<|end|>\n</s>"},
    "zephyr": {"late_system": True, "tool_results": False, "turn_end": "</s>\n"},
    "deepseek": {
        "late_system": False,  # moved to the top
        "tool_calls": True,
        "object_arguments": False,
        "empty_content": EmptyContent.NULL,
        "turn_end": "<｜end▁of▁sentence｜>",
    },
    "vicuna": {"late_system": True, "turn_end": "</s>"},
    "command": {"turn_end": "<|END_OF_TURN_TOKEN|>"},
    "granite": {"turn_end": "<|end_of_text|>\n"},
    "tulu": {"turn_end": "</s>\n"},
    "glm": {"turn_end": ""},
}


@pytest.mark.parametrize("family", EXPECTED)
def test_families(family: str) -> None:
    found = traits(families.ALL[family])
    assert {name: getattr(found, name) for name in EXPECTED[family]} == EXPECTED[family]


def test_text_only_as_parts() -> None:
    assert traits(families.PARTS_ONLY).text_as_parts
    assert traits(families.PARTS_ONLY).leading_system
    assert traits(families.PARTS_ONLY).turn_end == "</s>\n"


def test_variants_are_probed_apart() -> None:
    template = ChatTemplate({"default": families.CHATML, "tool_use": families.CHATML_TOOLS})
    assert template.traits(False).late_system
    assert not template.traits(True).late_system


@pytest.mark.parametrize("template", ["{{ 1 // 0 }}", "{% for %}", "", "{{ raise_exception('no') }}"])
def test_templates_that_take_nothing(template: str) -> None:
    found = traits(template)
    assert not found.leading_system
    assert not found.tool_calls
    assert found.turn_end == ""
