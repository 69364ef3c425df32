"""The grammar of the events, on updates written by hand."""

from typing import Any

import pytest
from tests.api.updates import FakeGeneration, call, end, named_frames, text, thought

from stoker.api.anthropic.reply import message_object
from stoker.api.anthropic.stream import HEARTBEAT, MessageStream
from stoker.api.generation import Update
from stoker.api.parts import PartBuilder, build_parts
from stoker.errors import GenerationFailed, StokerError

REPLY = [
    thought("hm"),
    text("I "),
    text("look."),
    call(0, "look", '{"at":'),
    call(0, None, '"x"}'),
    call(1, "go", ""),
    end("tool_calls"),
]


async def events(*script: Update | StokerError) -> list[dict[str, Any]]:
    stream = MessageStream(FakeGeneration(script), model="tiny")
    written = b""
    try:
        async for frame in stream.frames():
            written += frame
    except StokerError as error:
        written += stream.error_frame(error)
    return named_frames(written.decode())


def check_grammar(found: list[dict[str, Any]]) -> None:
    """message_start, blocks with indices from 0 each stopped before the next, message_delta,
    message_stop; ping anywhere behind the start."""
    assert found[0]["type"] == "message_start"
    names = [event["type"] for event in found if event["type"] not in ("ping", "error")]
    assert names[-2:] == ["message_delta", "message_stop"]
    open_block, next_index = None, 0
    for event in found[1:]:
        if event["type"] == "content_block_start":
            assert open_block is None
            assert event["index"] == next_index
            open_block, next_index = next_index, next_index + 1
        elif event["type"] == "content_block_delta":
            assert event["index"] == open_block
        elif event["type"] == "content_block_stop":
            assert event["index"] == open_block
            open_block = None
        elif event["type"] == "message_delta":
            assert open_block is None
    assert next_index > 0


async def test_every_kind_of_block() -> None:
    found = await events(*REPLY)
    check_grammar(found)
    started = [event["content_block"] for event in found if event["type"] == "content_block_start"]
    assert [block["type"] for block in started] == ["thinking", "text", "tool_use", "tool_use"]
    assert started[2]["name"] == "look"
    assert started[2]["input"] == {}
    assert started[2]["id"] == "toolu_" + "0" * 24
    deltas = [event["delta"] for event in found if event["type"] == "content_block_delta"]
    assert deltas == [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": ""},
        {"type": "text_delta", "text": "I "},
        {"type": "text_delta", "text": "look."},
        {"type": "input_json_delta", "partial_json": '{"at":'},
        {"type": "input_json_delta", "partial_json": '"x"}'},
    ]


async def test_usage_is_real_at_the_start_and_cumulative_at_the_end() -> None:
    found = await events(text("a"), end())
    started = found[0]["message"]
    assert (started["usage"]["input_tokens"], started["usage"]["output_tokens"]) == (3, 0)
    assert (started["content"], started["stop_reason"]) == ([], None)
    usage = next(event["usage"] for event in found if event["type"] == "message_delta")
    assert usage["input_tokens"] == 3
    assert usage["output_tokens"] == 7
    assert usage["cache_read_input_tokens"] == 2
    assert usage["output_tokens_details"] == {"thinking_tokens": 4}


@pytest.mark.parametrize(
    ("script", "reason", "sequence"),
    [
        ([text("a"), end()], "end_turn", None),
        ([text("a"), end("length")], "max_tokens", None),
        ([text("a"), end("stop", "###")], "stop_sequence", "###"),
        ([call(0, "f", "{}"), end("tool_calls")], "tool_use", None),
        ([thought("a"), end("length")], "max_tokens", None),
    ],
)
async def test_endings_in_both_modes(script: list[Update], reason: str, sequence: str | None) -> None:
    delta = next(event["delta"] for event in await events(*script) if event["type"] == "message_delta")
    assert (delta["stop_reason"], delta["stop_sequence"]) == (reason, sequence)
    generation: Any = FakeGeneration(script)
    whole = message_object(generation, await build_parts(generation, PartBuilder()), model="tiny")
    assert (whole["stop_reason"], whole["stop_sequence"]) == (reason, sequence)


async def test_the_whole_message_has_what_the_stream_adds_up_to() -> None:
    generation: Any = FakeGeneration(REPLY)
    whole = message_object(generation, await build_parts(generation, PartBuilder()), model="tiny")
    assert whole["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "text", "text": "I look.", "citations": None},
        {
            "type": "tool_use",
            "id": "toolu_" + "0" * 24,
            "name": "look",
            "caller": {"type": "direct"},
            "input": {"at": "x"},
        },
        {
            "type": "tool_use",
            "id": "toolu_" + "0" * 23 + "1",
            "name": "go",
            "caller": {"type": "direct"},
            "input": {},
        },
    ]


async def test_arguments_that_are_no_json_are_kept() -> None:
    script = [call(0, "f", '{"a": '), end("length")]
    generation: Any = FakeGeneration(script)
    whole = message_object(generation, await build_parts(generation, PartBuilder()), model="tiny")
    assert whole["content"][0]["input"] == {"_raw": '{"a": '}


async def test_an_empty_reply_is_one_empty_text_block() -> None:
    found = await events(end())
    check_grammar(found)
    (start,) = [event for event in found if event["type"] == "content_block_start"]
    assert start["content_block"]["text"] == ""


@pytest.mark.parametrize("before", [[], [text("half")], [thought("hm")], [call(0, "f", '{"a')]])
async def test_an_error_closes_the_message(before: list[Update]) -> None:
    found = await events(*before, GenerationFailed("out of memory"))
    check_grammar(found)
    (error,) = [event for event in found if event["type"] == "error"]
    assert error["error"] == {"type": "api_error", "message": "out of memory"}
    assert found[-1]["type"] == "message_stop"


def test_the_heartbeat_is_a_comment_and_a_ping() -> None:
    assert HEARTBEAT.startswith(b": keep-alive\n\n")
    assert named_frames(HEARTBEAT.decode()) == [{"type": "ping"}]
