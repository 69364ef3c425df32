"""Messages and content blocks to chat messages."""

from typing import Any

import pytest

from stoker.api.anthropic.conversation import read_conversation
from stoker.errors import InvalidRequest

USE = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "x"}}
PIXEL = {"type": "base64", "media_type": "image/gif", "data": "R0lGODlhAQ=="}


def convert(*messages: dict[str, Any], system: Any = None) -> list[dict[str, Any]]:
    return read_conversation(system, list(messages))


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def result(content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **fields}


def words(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in texts]


def test_text_blocks_are_joined_by_newlines() -> None:
    assert convert(user(words("a", "b"))) == [user("a\nb")]


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("be brief", "be brief"),
        (words("be", "brief"), "be\nbrief"),
        ([{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}], "be brief"),
        (words("x-anthropic-billing-header: cch=1f2;", "be brief"), "be brief"),
    ],
)
def test_system(system: Any, expected: str) -> None:
    assert convert(user("hi"), system=system) == [{"role": "system", "content": expected}, user("hi")]


@pytest.mark.parametrize("system", [None, "", []])
def test_no_system(system: Any) -> None:
    assert convert(user("hi"), system=system) == [user("hi")]


def test_results_come_before_the_rest_of_their_turn() -> None:
    messages = convert(
        user("go"), assistant([*words("I look."), USE]), user([*words("and?"), result("found")])
    )
    assert messages[1:] == [
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "toolu_1", "type": "function", "function": {"name": "look", "arguments": {"at": "x"}}}
            ],
        },
        {"role": "tool", "tool_call_id": "toolu_1", "content": "found"},
        user("and?"),
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [("found", "found"), (words("a", "b"), "a\nb"), (None, ""), ([], "")],
)
def test_forms_of_a_result(content: Any, expected: str) -> None:
    (message,) = convert(user([result(content)]))
    assert message == {"role": "tool", "tool_call_id": "toolu_1", "content": expected}


def test_an_error_is_marked() -> None:
    (message,) = convert(user([result("no such file", is_error=True)]))
    assert message["content"] == "Error:\nno such file"


def test_images_also_inside_a_result() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/gif;base64,R0lGODlhAQ=="}}
    image = {"type": "image", "source": PIXEL}
    (message,) = convert(user([image, *words("what?")]))
    assert message["content"] == [part, {"type": "text", "text": "what?"}]
    (message,) = convert(user([result([image])]))
    assert message["content"] == [part]
    (message,) = convert(user([{"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}]))
    assert message["content"][0]["image_url"] == {"url": "http://x/y.png"}


def test_a_base64_image_is_png_unless_it_says_otherwise() -> None:
    (message,) = convert(user([{"type": "image", "source": {"type": "base64", "data": "AA=="}}]))
    assert message["content"][0]["image_url"]["url"] == "data:image/png;base64,AA=="


def test_thinking_reaches_the_template_and_alone_is_no_turn() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    messages = convert(user("a"), assistant([thinking, *words("b")]), user("c"))
    assert messages[1] == {"role": "assistant", "content": "b", "reasoning_content": "hm"}
    redacted = {"type": "redacted_thinking", "data": "x"}
    assert convert(user("a"), assistant([thinking, redacted]), user("c")) == [user("a\nc")]


def test_turns_of_one_side_in_a_row_are_one_turn() -> None:
    assert convert(user("a"), user(words("b"))) == [user("a\nb")]
    assert convert(user("a"), assistant("b"), assistant("c"))[1] == assistant("b\nc")


def test_a_late_system_turn_keeps_its_place() -> None:
    messages = [user("a"), assistant("b"), {"role": "system", "content": "c"}, user("d")]
    assert convert(*messages) == messages


def test_documents_and_search_results_give_their_text() -> None:
    document = {"type": "document", "title": "T", "source": {"type": "text", "data": "words"}}
    assert convert(user([document])) == [user("T\nwords")]
    nested = {"type": "document", "source": {"type": "content", "content": words("a")}}
    assert convert(user([nested])) == [user("a")]
    found = {"type": "search_result", "title": "T", "source": "u", "content": words("a")}
    assert convert(user([found])) == [user("T\nu\na")]


def test_other_blocks_count_by_their_text() -> None:
    assert convert(user([{"type": "later", "text": "a"}, {"type": "even_later"}])) == [user("a")]


@pytest.mark.parametrize(
    ("messages", "named"),
    [
        (None, "messages: at least one message is required"),
        ([], "messages: at least one message is required"),
        ({}, "messages must be an array"),
        ([1], r"messages\[0\] must be an object"),
        ([{"content": "x"}], r"messages\[0\].role"),
        ([user(None)], r"messages\[0\].content must be"),
        ([user(["x"])], r"messages\[0\].content\[0\]"),
        ([user([{"type": "text"}])], r"messages\[0\].content\[0\].text"),
        ([user([{"type": "image"}])], r"content\[0\].source"),
        ([user([{"type": "image", "source": {"type": "file"}}])], "must be one of 'base64', 'url'"),
        ([user([{"type": "document", "source": {"type": "base64"}}])], "PDF"),
        ([user([{"type": "input_audio"}])], "/v1/chat/completions"),
        ([user([{"type": "tool_result", "content": "x"}])], "tool_use_id"),
        ([user([USE])], "must not be 'tool_use'"),
        ([assistant([result("x")])], "must not be 'tool_result'"),
        ([assistant([{**USE, "input": "x"}])], r"content\[0\].input"),
        ([assistant([{**USE, "id": None}])], "id and a name"),
        ([assistant("")], "nothing to reply to"),
    ],
)
def test_what_is_wrong_is_named(messages: Any, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        read_conversation(None, messages)


def test_a_system_prompt_is_text() -> None:
    with pytest.raises(InvalidRequest, match=r"system\[0\].type"):
        convert(user("hi"), system=[{"type": "image", "source": PIXEL}])
