"""A reply that goes on from a text: the prompt is the beginning of the finished conversation's."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.chat.model import TextModel
from stoker.chat.prefill import render_unfinished
from stoker.chat.reader import ReplyReader, reading_for
from stoker.chat.reasoning import leaves_open
from stoker.chat.shaping import render_conversation
from stoker.chat.template import ChatTemplate
from stoker.errors import InvalidRequest, TemplateError

from . import families, readings, tool_families
from .toys import byte_level

FAMILIES = families.ALL | tool_families.ALL
USER = {"role": "user", "content": "Where is the tower?"}


def said(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **fields}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("text", ["Paris, in", '{"', "e", "im_end", "a\n\n```py\n"])
def test_the_finished_turn_begins_with_the_prompt(family: str, text: str) -> None:
    template = ChatTemplate(FAMILIES[family], families.SPECIAL)
    prompt = render_unfinished(template, [USER, said(text)])
    assert prompt.endswith(text)
    finished = render_conversation(template, [USER, said(text + "END")], add_generation_prompt=False)
    assert finished.startswith(prompt + "END")


def test_white_space_is_the_callers() -> None:
    # This one trims.
    template = ChatTemplate(families.CHATML_DEFAULT_SYSTEM, families.SPECIAL)
    assert render_unfinished(template, [USER, said("The sum is: ")]).endswith("assistant\nThe sum is: ")


@pytest.mark.parametrize(
    "last", [USER, said(""), said("x", tool_calls=[{"function": {"name": "f", "arguments": {}}}])]
)
def test_what_cannot_be_continued(last: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="last message cannot be continued"):
        render_unfinished(ChatTemplate(families.CHATML), [USER, last])


def test_a_template_that_leaves_it_out() -> None:
    template = ChatTemplate("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}")
    with pytest.raises(TemplateError, match="leaves out the last message"):
        render_unfinished(template, [USER, said("x")])


def test_tokens_are_those_of_the_text() -> None:
    config = {**families.SPECIAL, "chat_template": families.CHATML}
    model = TextModel.from_parts("m", byte_level(), config, {}, {"max_position_embeddings": 512})
    text = model.render([USER, said("Par")], continue_final=True)
    assert text.endswith("<|im_start|>assistant\nPar")
    assert model.prompt_from_rendered(text) == model.tokenizer.encode(text, add_special=False)


def test_thinking_that_is_not_closed_goes_on() -> None:
    tags = ("<think>", "</think>")
    assert leaves_open("<think>\nWell", tags)
    assert not leaves_open("<think>\nWell</think>\nParis", tags)
    assert not leaves_open("Paris", tags)
    for prefill, expected in (
        ("<think>\nI", readings.Result("Yes", " see", [])),
        ("So", readings.Result(" see</think>Yes".replace("</think>", ""), "", [])),
    ):
        reading = reading_for(["<think></think>"], "assistant\n" + prefill, prefill=prefill)
        assert reading is not None
        reader = ReplyReader(reading)
        assert readings.result([*reader.feed(" see</think>Yes"), *reader.finish()]) == expected


def test_bare_json_is_no_call_in_the_middle_of_a_text() -> None:
    body = '{"name": "now", "arguments": {}}'
    sources = ["<tool_call>"]
    for prefill, calls in (("", [("now", {})]), ("For example: ", [])):
        reading = reading_for(sources, "assistant\n" + prefill, readings.TOOLS, prefill=prefill)
        assert reading is not None
        assert readings.read(reading, [body]).calls == calls
