"""Input items to chat messages."""

from typing import Any

import pytest

from stoker.api.openai.responses.items import encode_thought, read_items, to_messages
from stoker.errors import InvalidRequest

CALL = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"at":"x"}'}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "found"}
CHAT_CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at":"x"}'}}


def convert(*items: Any, instructions: str | None = None) -> list[dict[str, Any]]:
    return to_messages(instructions, read_items(list(items)))


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


def test_a_string_is_a_user_message() -> None:
    assert to_messages(None, read_items("hi")) == [said("user", "hi")]


def test_every_item_gets_an_id_and_keeps_its_own() -> None:
    items = read_items([said("user", "a"), CALL, {**OUTPUT, "id": "mine"}])
    assert [item["id"].split("_")[0] for item in items] == ["msg", "fc", "mine"]


@pytest.mark.parametrize("kind", ["input_text", "output_text", "text"])
def test_parts_are_joined(kind: str) -> None:
    parts = [{"type": kind, "text": "a"}, {"type": kind, "text": "b"}]
    assert convert({"type": "message", **said("user", parts)}) == [said("user", "a\nb")]


def test_images_stay_parts() -> None:
    parts = [{"type": "input_text", "text": "what?"}, {"type": "input_image", "image_url": "data:x"}]
    assert convert(said("user", parts)) == [
        said(
            "user",
            [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": "data:x"}}],
        )
    ]


def test_unknown_roles_are_users_and_unknown_items_nothing() -> None:
    assert convert(said("critic", "a"), {"type": "web_search_call", "id": "ws"}) == [said("user", "a")]


def test_instructions_and_leading_system_items_are_one_message() -> None:
    messages = convert(said("system", "b"), said("developer", "c"), said("user", "hi"), instructions="a")
    assert messages == [said("system", "a\n\nb\n\nc"), said("user", "hi")]


def test_a_late_system_item_does_not_change_what_is_before_it() -> None:
    turns = [said("user", "a"), said("assistant", "b")]
    messages = convert(*turns, said("developer", "c"), said("user", "d"), instructions="i")
    assert messages[:3] == [said("system", "i"), *turns]
    assert messages[3:] == [said("system", "c"), said("user", "d")]


def test_the_items_of_one_reply_are_one_turn() -> None:
    reasoning = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    second = {**CALL, "call_id": "call_2"}
    messages = convert(said("user", "go"), reasoning, said("assistant", "I look."), CALL, second, OUTPUT)
    assert messages[1] == {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "hm",
        "tool_calls": [CHAT_CALL, {**CHAT_CALL, "id": "call_2"}],
    }
    assert messages[2] == {"role": "tool", "tool_call_id": "call_1", "content": "found"}


def test_a_call_behind_its_result_begins_a_new_turn() -> None:
    messages = convert(said("user", "go"), CALL, OUTPUT, CALL, OUTPUT)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "tool"]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("found", "found"),
        ({"a": 1}, '{"a": 1}'),
        (None, "null"),
        ([1, 2], "[1, 2]"),
        ([{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}], "a\nb"),
    ],
)
def test_forms_of_an_output(output: Any, expected: str) -> None:
    assert convert(CALL, {**OUTPUT, "output": output})[-1]["content"] == expected


def test_thoughts_come_back_from_the_opaque_field() -> None:
    reasoning = {"type": "reasoning", "summary": [], "encrypted_content": encode_thought("hm 你")}
    foreign = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA=="}
    messages = convert(said("user", "a"), foreign, reasoning, said("assistant", "b"))
    assert messages[1] == {"role": "assistant", "content": "b", "reasoning_content": "hm 你"}


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (1, "input must be"),
        ([1], r"input\[0\] must be an object"),
        ([{"type": 1}], r"input\[0\].type"),
        ([{"content": "x"}], r"input\[0\].role"),
        ([said("user", 1)], r"input\[0\].content"),
        ([said("user", ["x"])], r"content\[0\]"),
        ([said("user", [{"type": "input_text"}])], "text must be a string"),
        ([said("user", [{"type": "input_file", "file_id": "f"}])], "must be one of"),
        ([said("user", [{"type": "input_image", "file_id": "f"}])], "image_url"),
        ([{**CALL, "arguments": {}}], "arguments"),
        ([{**CALL, "call_id": None}], "call_id"),
        ([{"type": "function_call_output", "output": ""}], "call_id"),
        ([{"type": "item_reference", "id": "msg_1"}], "item_reference is not supported"),
        ([{"type": "web_search_call"}], "nothing to reply to"),
    ],
)
def test_what_is_wrong_is_named(value: Any, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        to_messages(None, read_items(value))
