"""Shapes of messages; fault B10 where it concerns spellings."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from stoker.chat.messages import normalize_messages
from stoker.errors import InvalidRequest

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def one(message: dict[str, Any]) -> dict[str, Any]:
    return normalize_messages([message])[0]


def test_roles() -> None:
    assert one({"role": "developer", "content": "x"}) == {"role": "system", "content": "x"}
    assert one({"role": "function", "name": "f", "content": "x"})["role"] == "tool"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        ([], ""),
        ([{"type": "text", "text": "a"}], "a"),
        ([{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}], "a\nb"),
        ([{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "no"}], "a\nno"),
        ([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, "b"], "a\nb"),
    ],
)
@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_content_becomes_one_string(role: str, content: Any, text: str) -> None:
    assert one({"role": role, "content": content})["content"] == text


def test_b10_all_spellings_of_no_content_are_one() -> None:
    turn = {"role": "assistant", "tool_calls": [CALL]}
    spellings = [turn, {**turn, "content": None}, {**turn, "content": ""}, {**turn, "content": []}]
    for spelling in spellings:
        assert one(spelling) == {**turn, "content": ""}


def test_null_keys_and_empty_calls_are_absent() -> None:
    message = {
        "role": "assistant",
        "content": "x",
        "refusal": None,
        "tool_calls": None,
        "function_call": None,
    }
    assert one(message) == {"role": "assistant", "content": "x"}
    assert "tool_calls" not in one({"role": "assistant", "content": "x", "tool_calls": []})


def test_calls_of_2023() -> None:
    message = one({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}})
    assert message["tool_calls"] == [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]
    assert "function_call" not in message


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({"reasoning": "r"}, "r"),
        ({"reasoning_content": "r"}, "r"),
        ({"reasoning_content": "", "reasoning": "r"}, ""),
        ({"reasoning_content": None, "reasoning": "r"}, "r"),
        ({"thinking": "r"}, "r"),
    ],
)
def test_reasoning_aliases(given: dict[str, Any], seen: str) -> None:
    message = one({"role": "assistant", "content": "x", **given})
    assert message["reasoning_content"] == seen
    assert message["thinking"] == given.get("thinking", seen)  # the name gpt-oss templates read
    assert "reasoning" not in message


def test_reasoning_of_others_is_left_alone() -> None:
    assert "reasoning_content" not in one({"role": "assistant", "content": "x"})
    assert "reasoning_content" not in one({"role": "user", "content": "x", "reasoning": "r"})


def test_the_original_is_not_changed_and_twice_is_once() -> None:
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "s"}]},
        {"role": "assistant", "content": None, "reasoning": "r", "tool_calls": [CALL]},
    ]
    before = copy.deepcopy(messages)
    normalized = normalize_messages(messages)
    assert messages == before
    assert normalize_messages(normalized) == normalized


@pytest.mark.parametrize("messages", [None, [], {}, "hi", 3, ({"role": "user", "content": "x"},)])
def test_messages_required(messages: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^messages required$"):
        normalize_messages(messages)


OK = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("hi", r"messages\[1\] must be an object"),
        ({"content": "x"}, r"messages\[1\]\.role must be one of 'system', 'developer', 'user'"),
        ({"role": "root", "content": "x"}, r"messages\[1\]\.role must be one of"),
        ({"role": ["user"], "content": "x"}, r"messages\[1\]\.role must be one of"),
        (
            {"role": "user", "content": 5},
            r"messages\[1\]\.content must be a string, null or an array of parts",
        ),
        ({"role": "user", "content": {"type": "text"}}, r"messages\[1\]\.content must be"),
        ({"role": "user", "content": [5]}, r"messages\[1\]\.content\[0\] must be an object with a type"),
        ({"role": "user", "content": [OK, {}]}, r"messages\[1\]\.content\[0\]\.type must be one of"),
        (
            {"role": "user", "content": [{"type": "text"}]},
            r"messages\[1\]\.content\[0\]\.text must be a string",
        ),
        ({"role": "user", "content": [{"type": ["x"]}]}, r"messages\[1\]\.content\[0\]\.type must be one of"),
        ({"role": "assistant", "tool_calls": {}}, r"messages\[1\]\.tool_calls must be an array"),
        ({"role": "assistant", "tool_calls": [1]}, r"messages\[1\]\.tool_calls\[0\] must be an object"),
        ({"role": "assistant", "tool_calls": [{}]}, r"tool_calls\[0\]\.function must be an object"),
        ({"role": "assistant", "tool_calls": [{"function": {}}]}, r"\[0\]\.function\.name must be a string"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": [1]}}]},
            r"\[0\]\.function\.arguments must be a string or an object",
        ),
        ({"role": "assistant", "content": "", "reasoning": 5}, r"messages\[1\]\.reasoning must be a string"),
    ],
)
def test_bad_shapes_are_named(message: Any, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        normalize_messages([OK, message])
    assert caught.value.status == 400
    assert caught.value.param is not None
    assert caught.value.param.startswith("messages[1]")


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}
VIDEO = {"type": "video_url", "video_url": {"url": "https://example.com/a.mp4"}}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([IMAGE], "^model has no vision sidecar$"),
        ([{"type": "image", "data": "AA=="}], "^model has no vision sidecar$"),
        ([{"type": "text", "text": "see"}, IMAGE, AUDIO], "^model has no vision sidecar$"),
        ([AUDIO], "^model tiny does not take audio content parts$"),
        ([{"type": "audio", "data": "AA=="}], "tiny does not take audio"),
        ([{"type": "audio_url", "audio_url": {"url": "x"}}], "tiny does not take audio"),
        ([VIDEO], "^model tiny does not take video content parts$"),
        ([VIDEO, AUDIO], "^video and audio content parts cannot be combined$"),
    ],
)
def test_media_is_refused_by_kind(parts: list[Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        normalize_messages([OK, {"role": "user", "content": parts}], "tiny")


def test_video_and_audio_in_different_turns_are_not_combined_either() -> None:
    turns = [{"role": "user", "content": [VIDEO]}, {"role": "user", "content": [AUDIO]}]
    with pytest.raises(InvalidRequest, match="cannot be combined"):
        normalize_messages(turns)
