"""The chain of events, on updates written by hand. The official SDK's types parse every one."""

from typing import Any, get_args

import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter
from starlette.datastructures import Headers
from tests.api.fronts import make_front
from tests.api.updates import FakeGeneration, call, end, named_frames, text, thought

from stoker.api.generation import Update
from stoker.api.openai.responses.parse import parse_response
from stoker.api.openai.responses.run import ResponseRun
from stoker.api.openai.responses.stream import ResponseStream
from stoker.errors import GenerationFailed, StokerError, Unavailable

TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
EVENTS: TypeAdapter[Any] = TypeAdapter(get_args(ResponseStreamEvent)[0])


async def events(
    *script: Update | StokerError, cancel: bool = False, body: bytes = b""
) -> list[dict[str, Any]]:
    front = make_front()
    request = parse_response(front.state, body or b'{"model":"m","input":"hi"}', Headers())
    generation: Any = FakeGeneration(script)
    run = ResponseRun(front.state, request, generation)
    if cancel:
        run.cancel()
    stream = ResponseStream(run)
    written = b""
    try:
        async for frame in stream.frames():
            written += frame
    except StokerError as error:
        written += stream.error_frame(error)
    found = named_frames(written.decode())
    check_chain(found)
    return found


def check_chain(found: list[dict[str, Any]]) -> None:
    """Numbers count up, items and their parts nest, and there is one terminal event, at the end."""
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    names = [event["type"] for event in found]
    assert names[:2] == ["response.created", "response.in_progress"]
    assert [name for name in names if name in TERMINAL] == names[-1:]
    open_item: dict[str, Any] | None = None
    open_part = False
    for event in found:
        name = event["type"]
        EVENTS.validate_python(event)
        if name == "response.output_item.added":
            assert open_item is None
            open_item = event["item"]
            assert open_item is not None
            assert open_item["status"] == "in_progress"
        elif name == "response.output_item.done":
            assert open_item is not None
            assert event["item"]["id"] == open_item["id"]
            assert not open_part
            open_item = None
        elif "item_id" in event:
            assert open_item is not None
            assert event["item_id"] == open_item["id"]
            if "part" in event:
                assert open_part is name.endswith(".done")
                open_part = name.endswith(".added")
    assert open_item is None
    for item, done in zip(
        found[-1]["response"]["output"],
        [event["item"] for event in found if event["type"] == "response.output_item.done"],
        strict=True,
    ):
        assert item == done


def joined(found: list[dict[str, Any]], kind: str) -> str:
    return "".join(event["delta"] for event in found if event["type"] == f"response.{kind}.delta")


async def test_text() -> None:
    found = await events(text("Hel"), text("lo"), end())
    assert joined(found, "output_text") == "Hello"
    assert [event["type"].removeprefix("response.") for event in found] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    usage = found[-1]["response"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (3, 7, 10)
    assert usage["input_tokens_details"]["cached_tokens"] == 2
    assert usage["output_tokens_details"] == {"reasoning_tokens": 4}


async def test_reasoning_then_text_then_calls() -> None:
    found = await events(
        thought("h"),
        thought("m"),
        text("I look."),
        call(0, "look", '{"a":'),
        call(0, None, "1}"),
        call(1, "go", "{}"),
        end("tool_calls"),
    )
    assert joined(found, "reasoning_summary_text") == "hm"
    assert joined(found, "function_call_arguments") == '{"a":1}{}'
    output = found[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call", "function_call"]
    assert [item["id"].split("_")[0] for item in output] == ["rs", "msg", "fc", "fc"]
    assert output[0]["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert output[2]["call_id"] == "call_" + "0" * 24
    assert found[-1]["response"]["status"] == "completed"


async def test_a_spent_budget() -> None:
    found = await events(text("Hel"), end("length"))
    response = found[-1]["response"]
    assert found[-1]["type"] == "response.incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert (response["status"], response["output"][0]["status"]) == ("incomplete", "incomplete")


@pytest.mark.parametrize("before", [[], [text("half")], [thought("hm")], [call(0, "f", '{"a')]])
async def test_an_error_in_the_middle(before: list[Update]) -> None:
    found = await events(*before, GenerationFailed("out of memory"))
    assert [event["type"] for event in found[-2:]] == ["error", "response.failed"]
    assert (found[-2]["code"], found[-2]["message"]) == ("server_error", "out of memory")
    response = found[-1]["response"]
    assert response["status"] == "failed"
    assert response["error"] == {"code": "server_error", "message": "out of memory"}


async def test_cancelled_by_its_route() -> None:
    found = await events(text("half"), Unavailable("cancelled"), cancel=True)
    assert found[-1]["type"] == "response.incomplete"
    assert found[-1]["response"]["status"] == "cancelled"
    assert found[-1]["response"]["output"][0]["content"][0]["text"] == "half"


async def test_an_empty_reply() -> None:
    found = await events(end())
    assert [event["type"] for event in found] == [
        "response.created",
        "response.in_progress",
        "response.completed",
    ]


async def test_the_first_event_holds_a_full_response() -> None:
    first, last = (await events(end()))[0]["response"], (await events(end()))[-1]["response"]
    assert set(first) == set(last)
    assert (first["status"], first["output"], first["usage"]) == ("in_progress", [], None)
    assert {"id", "created_at", "model", "tools", "tool_choice", "text", "metadata"} <= set(first)


async def test_opaque_thoughts_when_asked_for() -> None:
    body = b'{"model":"m","input":"hi","include":["reasoning.encrypted_content"]}'
    for asked, expected in ((body, {"encrypted_content"}), (b"", set())):
        output = (await events(thought("hm"), text("a"), end(), body=asked))[-1]["response"]["output"]
        assert set(output[0]) - {"id", "type", "status", "summary"} == expected
