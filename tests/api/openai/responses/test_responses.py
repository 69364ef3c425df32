"""The routes of Responses on a scripted engine: fields, the store, cancel, errors."""

import asyncio
import json
from typing import Any

import pytest
from tests.api.fronts import Front, make_front
from tests.api.updates import named_frames
from tests.fakes import Failure, text_script

from stoker.api import ApiSettings

PATH = "/v1/responses"
PIXEL = "data:image/gif;base64,R0lGODlhAQ=="
TOOL = {
    "type": "function",
    "name": "look",
    "description": None,
    "parameters": {"type": "object"},
    "strict": None,
}


def ask(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "input": "hi", **fields}


async def create(front: Front, **fields: Any) -> dict[str, Any]:
    response = await front.post(PATH, ask(**fields))
    assert response.status_code == 200, response.text
    created: dict[str, Any] = response.json()
    return created


async def error_of(front: Front, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
    async with front.client() as client:
        response = await client.request(method, path, json=body)
    (name, error), *rest = response.json().items()
    assert (name, rest) == ("error", [])
    assert set(error) == {"message", "type", "param", "code"}
    return response.status_code, error


def prompt_of(front: Front) -> str:
    """The last request's prompt without the ChatML marks."""
    return bytes(i for i in front.engine.requests[-1].prompt_ids if i < 256).decode()


# Creating


async def test_the_loaded_model_answers_whatever_model_says(front: Front) -> None:
    for model in ({}, {"model": None}, {"model": "gpt-5"}):
        response = await front.post(PATH, {"input": "hi", **model})
        assert (response.status_code, response.json()["model"]) == (200, "tiny/bytes")


async def test_the_whole_response(front: Front) -> None:
    response = await create(front, max_output_tokens=50, temperature=0.5, metadata={"k": "v"})
    assert response["id"].startswith("resp_")
    (message,) = response["output"]
    assert message.pop("id").startswith("msg_")
    assert message == {
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello there.", "annotations": [], "logprobs": []}],
    }
    assert response["usage"]["input_tokens"] == 21
    expected = {
        "object": "response",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": 50,
        "model": "tiny/bytes",
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": True,
        "temperature": 0.5,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "truncation": "disabled",
        "user": None,
        "metadata": {"k": "v"},
    }
    assert {name: response[name] for name in expected} == expected


async def test_the_stream_ends_with_the_same(front: Front) -> None:
    whole = await create(front, seed=1)
    streamed = named_frames((await front.post(PATH, ask(stream=True, seed=1))).text)[-1]["response"]
    for response in (whole, streamed):
        for name in ("id", "created_at", "completed_at"):
            del response[name]
        del response["output"][0]["id"]
    assert whole == streamed


@pytest.mark.parametrize(
    ("fields", "budget"), [({"max_output_tokens": 3, "max_tokens": 5}, 3), ({"max_tokens": 5}, 5)]
)
async def test_ceilings(front: Front, fields: dict[str, int], budget: int) -> None:
    response = await create(front, **fields)
    assert front.engine.requests[-1].max_tokens == budget
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["content"][0]["text"] == "Hello there."[:budget]


async def test_instructions_lead(front: Front) -> None:
    items = [{"role": "developer", "content": "B"}, {"role": "user", "content": "hi"}]
    await create(front, instructions="A", input=items)
    assert prompt_of(front) == "system\nA\n\nB\nuser\nhi\nassistant\n"


async def test_tools_are_repeated_and_hosted_ones_left_out(front: Front) -> None:
    response = await create(front, tools=[TOOL, {"type": "web_search"}, {"type": "mcp", "server_label": "x"}])
    assert response["tools"] == [TOOL]


async def test_logprobs_when_included(front: Front) -> None:
    response = await create(front, include=["message.output_text.logprobs"], top_logprobs=2)
    logprobs = response["output"][0]["content"][0]["logprobs"]
    assert "".join(entry["token"] for entry in logprobs) == "Hello there."
    assert all(len(entry["top_logprobs"]) == 2 for entry in logprobs)
    events = named_frames((await front.post(PATH, ask(stream=True, top_logprobs=2))).text)
    streamed = [
        e for event in events if event["type"] == "response.output_text.delta" for e in event["logprobs"]
    ]
    assert streamed == logprobs


async def test_reasoning_effort_and_schema_reach_the_chat(front: Front) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    shape = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
    response = await create(front, text={"format": shape, "verbosity": "low"}, reasoning={"effort": "low"})
    assert response["text"] == {"format": {**shape, "description": None}, "verbosity": "low"}
    assert response["reasoning"] == {"effort": "low", "summary": None}
    status, error = await error_of(front, "POST", PATH, ask(reasoning={"effort": "much"}))
    assert status == 400
    assert error["param"] == "reasoning.effort"
    assert error["message"].startswith("reasoning.effort must be one of 'none', ")


@pytest.mark.parametrize("place", ["text", "response_format"])
async def test_b25_a_schema_is_enforced_from_either_place(front: Front, place: str) -> None:
    """Its own place, and the chat protocol's by mistake."""
    compiled: list[Any] = []
    object.__setattr__(front.state, "compile_constraint", compiled.append)
    shape = {"name": "n", "schema": {"type": "object"}, "strict": True}
    own = {"format": {"type": "json_schema", **shape}}
    fields = {"text": own} if place == "text" else {place: {"type": "json_schema", "json_schema": shape}}
    await create(front, **fields)
    constraint = front.engine.requests[-1].constraint
    assert constraint is not None
    assert constraint in compiled
    assert json.loads(constraint.source) == {"type": "object"}


# The store


async def test_a_conversation_goes_on(front: Front) -> None:
    first = await create(front, instructions="I")
    second = await create(front, input="more", previous_response_id=first["id"])
    assert prompt_of(front) == ("system\nI\nuser\nhi\nassistant\nHello there.\nuser\nmore\nassistant\n")
    assert (second["previous_response_id"], second["instructions"]) == (first["id"], "I")
    await create(front, input="third", previous_response_id=second["id"], instructions="J")
    assert prompt_of(front) == (
        "system\nJ\nuser\nhi\nassistant\nHello there.\nuser\nmore\nassistant\nHello there.\n"
        "user\nthird\nassistant\n"
    )


async def test_a_streamed_response_is_stored_too(front: Front) -> None:
    final = named_frames((await front.post(PATH, ask(stream=True))).text)[-1]["response"]
    assert (await front.get(f"{PATH}/{final['id']}")).json() == final


async def test_reading_and_deleting(front: Front) -> None:
    response = await create(front)
    path = f"{PATH}/{response['id']}"
    assert (await front.get(path)).json() == response
    stats = (await front.get("/stats")).json()["response_store"]
    assert (stats["entries"], stats["max_bytes"], stats["ttl_ms"]) == (1, 33554432, 3600000)
    assert stats["bytes"] > 0
    async with front.client() as client:
        deleted = (await client.delete(path)).json()
    assert deleted == {"id": response["id"], "object": "response", "deleted": True}
    for method in ("GET", "DELETE"):
        status, error = await error_of(front, method, path)
        assert (status, error["type"]) == (404, "invalid_request_error")
    assert (await front.get("/stats")).json()["response_store"]["entries"] == 0


async def test_a_stored_response_is_not_streamed_again(front: Front) -> None:
    """A client that asked for events would take the JSON for a stream without any."""
    path = f"{PATH}/{(await create(front))['id']}"
    status, error = await error_of(front, "GET", path + "?stream=true")
    assert (status, error["param"]) == (400, "stream")
    assert (await front.get(path + "?stream=false")).status_code == 200


async def test_what_is_not_stored(front: Front) -> None:
    response = await create(front, store=False)
    assert response["store"] is False
    failing = make_front([72, Failure("out of memory")])
    await failing.post(PATH, ask())
    await failing.post(PATH, ask(stream=True))
    for each in (front, failing):
        assert (await each.get("/stats")).json()["response_store"]["entries"] == 0
    status, error = await error_of(front, "POST", PATH, ask(previous_response_id=response["id"]))
    assert (status, error["param"]) == (404, "previous_response_id")
    assert response["id"] in error["message"]


async def test_input_items(front: Front) -> None:
    first = await create(front)
    items = [{"role": "user", "content": "a"}, {"role": "user", "content": "b", "id": "msg_b"}]
    second = await create(front, input=items, previous_response_id=first["id"])
    path = f"{PATH}/{second['id']}/input_items"
    page = (await front.get(path + "?order=asc")).json()
    texts = [item["content"][0]["text"] for item in page["data"]]
    assert texts == ["hi", "Hello there.", "a", "b"]
    assert (page["has_more"], page["last_id"]) == (False, "msg_b")
    newest = (await front.get(path + "?limit=1")).json()
    assert ([item["id"] for item in newest["data"]], newest["has_more"]) == (["msg_b"], True)
    rest = (await front.get(path + "?after=msg_b")).json()
    assert [item["content"][0]["text"] for item in rest["data"]] == texts[2::-1]
    for query in ("limit=0", "limit=x", "limit=101", "order=up", "after=nobody"):
        assert (await error_of(front, "GET", f"{path}?{query}"))[0] == 400


# Under way


async def first_id(lines: Any) -> str:
    async for line in lines:
        if line.startswith("data: "):
            return str(json.loads(line.removeprefix("data: "))["response"]["id"])
    raise AssertionError("no event")


async def slow_front() -> Front:
    return make_front(text_script("x" * 2000), step_s=0.002)


async def test_cancelling_one_under_way() -> None:
    front = await slow_front()
    answer = asyncio.create_task(front.post(PATH, ask()))
    while not front.engine.requests:
        await asyncio.sleep(0.002)
    id = front.engine.requests[0].id
    shown = (await front.get(f"{PATH}/{id}")).json()
    assert shown["status"] == "in_progress"
    assert (await front.get(f"{PATH}/{id}/input_items")).json()["data"][0]["content"][0]["text"] == "hi"
    cancelled = (await front.post(f"{PATH}/{id}/cancel", None)).json()
    assert cancelled["status"] == "cancelled"
    response = (await answer).json()
    assert (response["id"], response["status"]) == (id, "cancelled")
    assert (await front.get(f"{PATH}/{id}")).json() == response
    assert (await front.post(f"{PATH}/{id}/cancel", None)).json() == response


async def test_deleting_one_under_way() -> None:
    front = await slow_front()
    answer = asyncio.create_task(front.post(PATH, ask(stream=True)))
    while not front.engine.requests:
        await asyncio.sleep(0.002)
    id = front.engine.requests[0].id
    async with front.client() as client:
        assert (await client.delete(f"{PATH}/{id}")).status_code == 200
    events = named_frames((await answer).text)
    assert events[-1]["response"]["status"] == "cancelled"
    assert (await front.get(f"{PATH}/{id}")).status_code == 404


# Errors


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"input": None}, "input is required"),
        ({"input": []}, "input is required"),
        ({"background": True}, "background is not supported"),
        ({"conversation": "conv_1"}, "conversation is not supported"),
        ({"previous_response_id": 1}, "previous_response_id must be of type str"),
        ({"max_output_tokens": 0}, "max_output_tokens must be at least 1"),
        ({"store": "yes"}, "store must be of type bool"),
        ({"truncation": "maybe"}, "truncation must be one of"),
        ({"include": ["everything"]}, "include must hold only"),
        ({"include": "x"}, "include must be an array"),
        ({"metadata": {"k": 1}}, "values of metadata"),
        ({"metadata": {"k" * 65: "v"}}, "keys of metadata"),
        ({"metadata": {str(n): "v" for n in range(17)}}, "at most 16 pairs"),
        ({"metadata": "x"}, "metadata must be an object"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
        ({"tools": {}}, "tools must be an array"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "absent"}}, "tool_choice"),
        ({"top_logprobs": 21}, "top_logprobs must be at most 20"),
        ({"input": "x" * 9000}, "prompt is too long"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": PIXEL}]}]},
            "vision",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]}]},
            "image data url must be base64",
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_wrong_input(front: Front, fields: dict[str, Any], named: str, stream: bool) -> None:
    status, error = await error_of(front, "POST", PATH, ask(stream=stream, **fields))
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert named in error["message"]
    assert not front.engine.requests


async def test_a_prompt_that_does_not_fit_has_its_code(front: Front) -> None:
    _, error = await error_of(front, "POST", PATH, ask(input="x" * 9000))
    assert error["code"] == "context_length_exceeded"


async def test_allowed_tools_narrow_the_offer(front: Front) -> None:
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "absent"}]}
    status, error = await error_of(front, "POST", PATH, ask(tools=[TOOL], tool_choice=choice))
    assert status == 400
    assert "tool_choice" in error["message"]


async def test_other_refusals_have_the_same_shape() -> None:
    front = make_front(settings=ApiSettings(max_body_bytes=200), max_queued=0)
    assert (await error_of(front, "POST", f"{PATH}/compact", ask()))[0] == 404
    assert (await error_of(front, "GET", PATH))[0] == 404
    assert (await error_of(front, "POST", PATH, ask(input="x" * 300)))[0] == 413
    assert (await error_of(front, "POST", PATH, ask()))[0] == 429
    locked = make_front(settings=ApiSettings(api_key="k"))
    assert (await error_of(locked, "GET", f"{PATH}/resp_1"))[0] == 401


async def test_an_engine_failure() -> None:
    front = make_front([72, Failure("out of memory")])
    status, error = await error_of(front, "POST", PATH, ask())
    assert (status, error["type"], error["message"]) == (500, "server_error", "out of memory")
