"""POST /v1/messages and /v1/messages/count_tokens on a scripted engine."""

from typing import Any

import pytest
from tests.api.fronts import Front, make_front
from tests.api.updates import named_frames
from tests.chat.families import CHATML_TOOLS
from tests.fakes import Failure, byte_text_model, text_script

from stoker.api import ApiSettings
from stoker.core import GenerationRequest

PATH = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
IMAGE = {"type": "image", "source": {"type": "url", "url": "http://x/"}}
HI: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]


def ask(**fields: Any) -> dict[str, Any]:
    return {"model": "claude", "max_tokens": 100, "messages": HI, **fields}


def prompt_of(front: Front) -> str:
    """The last request's prompt without the ChatML marks."""
    return bytes(i for i in front.engine.requests[-1].prompt_ids if i < 256).decode()


async def test_a_whole_message(front: Front) -> None:
    response = await front.post(PATH, ask())
    assert response.status_code == 200
    message = response.json()
    assert message.pop("id").startswith("msg_")
    assert response.headers["request-id"].startswith("req_")
    usage = message.pop("usage")
    assert (usage["input_tokens"], usage["output_tokens"]) == (21, 13)
    assert message == {
        "type": "message",
        "role": "assistant",
        "model": "tiny/bytes",
        "content": [{"type": "text", "text": "Hello there.", "citations": None}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
    }


async def test_the_stream_says_the_same(front: Front) -> None:
    response = await front.post(PATH, ask(stream=True))
    assert response.headers["content-type"] == "text/event-stream"
    events = named_frames(response.text)
    text = "".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta")
    assert text == "Hello there."
    assert events[0]["message"]["usage"]["input_tokens"] == 21


async def test_fields_reach_the_engine(front: Front) -> None:
    asked = ask(
        max_tokens=7, temperature=0.5, top_k=3, top_p=0.9, seed=4, session_id="s", logit_bias={"a": 1}
    )
    await front.post(PATH, asked)
    (request,) = front.engine.requests
    sampling = request.sampling
    assert (request.max_tokens, request.session) == (7, "s")
    assert (sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed) == (0.5, 3, 0.9, 4)
    assert not sampling.logit_bias


async def test_max_tokens_may_be_left_out(front: Front) -> None:
    assert (await front.post(PATH, {"messages": HI})).status_code == 200
    assert front.engine.requests[-1].max_tokens == 1024
    limited = make_front(settings=ApiSettings(max_tokens=2000))
    await limited.post(PATH, {"messages": HI})
    assert limited.engine.requests[-1].max_tokens == 2000


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stop_sequence_is_reported(front: Front, stream: bool) -> None:
    response = await front.post(PATH, ask(stop_sequences=["there", "xyz"], stream=stream))
    if stream:
        events = named_frames(response.text)
        ending = next(event["delta"] for event in events if event["type"] == "message_delta")
        text = "".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta")
    else:
        ending = response.json()
        text = ending["content"][0]["text"]
    assert text == "Hello "
    assert (ending["stop_reason"], ending["stop_sequence"]) == ("stop_sequence", "there")


async def test_a_spent_budget(front: Front) -> None:
    message = (await front.post(PATH, ask(max_tokens=5))).json()
    assert (message["content"][0]["text"], message["stop_reason"]) == ("Hello", "max_tokens")


async def test_headers_and_query_of_the_protocol_change_nothing(front: Front) -> None:
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "x-2025-01-01", "x-api-key": "any"}
    response = await front.post(PATH + "?beta=true", ask(metadata={"user_id": "u"}), headers=headers)
    assert response.status_code == 200


LATE = """{% for m in messages %}{% if m.role == 'system' and not loop.first %}
{{ raise_exception('System message must be at the beginning.') }}{% endif %}
{{- m.role }}:{{ m.content }};{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"""


async def test_a_late_system_turn_keeps_the_prefix() -> None:
    front = make_front(text=byte_text_model(template=LATE))
    turns = [*HI, {"role": "assistant", "content": "yes"}]
    assert (await front.post(PATH, ask(system="S", messages=[*turns, *HI]))).status_code == 200
    before = front.engine.requests[-1].prompt_ids
    late = [*turns, {"role": "system", "content": "be brief"}, *HI]
    assert (await front.post(PATH, ask(system="S", messages=late))).status_code == 200
    after = front.engine.requests[-1].prompt_ids
    shared = b"system:S;user:hi;assistant:yes;user:"
    assert bytes(before[: len(shared)]) == bytes(after[: len(shared)]) == shared
    assert b"be brief" in bytes(after)


async def test_thinking_switches_the_template() -> None:
    template = "{{ enable_thinking }} {{ messages[-1].content }}"
    front = make_front(text=byte_text_model(template=template))
    for thinking, expected in (
        ({"type": "enabled", "budget_tokens": 2048}, "True"),
        ({"type": "disabled"}, "False"),
        ({"type": "adaptive"}, ""),
    ):
        await front.post(PATH, ask(thinking=thinking))
        assert prompt_of(front) == f"{expected} hi"


async def test_a_thinking_budget() -> None:
    """Some thirty tokens of thought are cut to four; the model goes on behind the closed channel."""
    template = CHATML_TOOLS + "{# </think> #}"

    def script(request: GenerationRequest, index: int) -> list[int]:
        closed = b"</think>" in bytes(token for token in request.prompt_ids if token < 256)
        return text_script("Yes." if closed else f"<think>{'hm ' * 10}</think>No.")

    front = make_front(script, text=byte_text_model(template=template))
    thinking = {"type": "enabled", "budget_tokens": 4}
    thought, answer = (await front.post(PATH, ask(thinking=thinking))).json()["content"]
    assert thought["thinking"].strip() in ("hm", "hm h")
    assert answer["text"].strip() == "Yes."


# Counting


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]},
        {"tools": [{"name": "f", "input_schema": {"type": "object"}}]},
        {"messages": [*HI, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "更多"}]},
    ],
)
async def test_the_count_is_what_the_request_reports(front: Front, fields: dict[str, Any]) -> None:
    counted = (await front.post(COUNT + "?beta=true", ask(**fields))).json()
    assert not front.engine.requests
    message = (await front.post(PATH, ask(**fields))).json()
    assert counted == {"input_tokens": message["usage"]["input_tokens"]}
    streamed = named_frames((await front.post(PATH, ask(stream=True, **fields))).text)
    assert counted["input_tokens"] == streamed[0]["message"]["usage"]["input_tokens"]


# Errors


async def error_of(front: Front, path: str, body: Any, **options: Any) -> tuple[int, dict[str, Any]]:
    response = await front.post(path, body, **options)
    answer = response.json()
    assert answer["type"] == "error"
    assert answer["request_id"] == response.headers["request-id"]
    assert set(answer) == {"type", "error", "request_id"}
    return response.status_code, answer["error"]


@pytest.mark.parametrize("path", [PATH, COUNT])
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"messages": []}, "messages: at least one message is required"),
        ({"temperature": "hot"}, "temperature must be of type float"),
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"stop_sequences": "x"}, "stop_sequences"),
        ({"stream": "yes"}, "stream must be of type bool"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tool_choice": {"type": "tool", "name": "absent"}}, "tool_choice"),
        ({"thinking": {"type": "deep"}}, "thinking.type"),
        ({"metadata": 1}, "metadata"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "image", "source": {"type": "url", "url": "http://x/"}}],
                    }
                ]
            },
            "vision",
        ),
    ],
)
async def test_wrong_input(front: Front, path: str, fields: dict[str, Any], named: str) -> None:
    status, error = await error_of(front, path, ask(**fields))
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert named in error["message"]
    assert not front.engine.requests


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_that_does_not_fit(front: Front, stream: bool) -> None:
    room = 4096 - 19
    for length, status in ((room, 400), (room - 2, 200)):
        asked = ask(messages=[{"role": "user", "content": "x" * length}], stream=stream)
        assert (await front.post(PATH, asked)).status_code == status
    assert (await error_of(front, PATH, {"messages": [{"role": "user", "content": "x" * room}]}))[1][
        "message"
    ] == "prompt is too long: 4096 tokens, the context holds 4096"
    count = (await front.post(COUNT, {"messages": [{"role": "user", "content": "x" * room}]})).json()
    assert count == {"input_tokens": 4096}


async def test_a_body_that_is_no_json(front: Front) -> None:
    async with front.client() as client:
        response = await client.post(PATH, content=b"{")
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith("invalid JSON body: ")


async def test_other_refusals_have_the_same_shape() -> None:
    front = make_front(settings=ApiSettings(api_key="k", max_body_bytes=200), max_queued=0)
    key = {"x-api-key": "k"}
    assert (await error_of(front, PATH, ask()))[0] == 401
    assert (await error_of(front, PATH, ask(), headers={**key, "host": "evil.example"}))[0] == 403
    assert (await error_of(front, "/v1/messages/batches", ask(), headers=key))[0] == 404
    assert (await error_of(front, PATH, ask(system="x" * 300), headers=key))[0] == 413
    status, error = await error_of(front, PATH, ask(), headers=key)
    assert (status, error["type"]) == (429, "invalid_request_error")


async def test_an_engine_failure() -> None:
    front = make_front([72, Failure("out of memory")])
    status, error = await error_of(front, PATH, ask())
    assert (status, error) == (500, {"type": "api_error", "message": "out of memory"})
    events = named_frames((await front.post(PATH, ask(stream=True))).text)
    assert [event["type"] for event in events][-3:] == ["error", "message_delta", "message_stop"]


async def test_a_last_turn_of_the_assistants_is_continued() -> None:
    front = make_front(text_script(" is the answer."))
    turns = [*HI, {"role": "assistant", "content": [{"type": "text", "text": "Paris"}]}]
    response = await front.post(PATH, ask(messages=turns))
    assert [block["text"] for block in response.json()["content"]] == [" is the answer."]
    (request,) = front.engine.requests
    prompt = bytes(i for i in request.prompt_ids if i < 256)
    assert prompt == b"user\nhi\nassistant\nParis"
    counted = await front.post("/v1/messages/count_tokens", {"messages": turns})
    assert counted.json() == {"input_tokens": len(request.prompt_ids)}
    # Behind a call there is nothing to go on with: a turn of the model's own begins.
    call = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
    await front.post(PATH, ask(messages=[*HI, {"role": "assistant", "content": [call]}]))
    assert bytes(i for i in front.engine.requests[-1].prompt_ids if i < 256).endswith(b"\nassistant\n")
