"""The official anthropic SDK against a real server on a scripted engine."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import anthropic
import pytest
from tests.api.fronts import Front, make_front, serving
from tests.api.loops import ANSWER, NUM_TURNS, SCHEMA, looping_front, result_of
from tests.chat.families import CHATML_TOOLS
from tests.fakes import Failure, byte_text_model, text_script

from stoker.api import ApiSettings

TEXT = "Hé 你好 🌍!"
HI: list[Any] = [{"role": "user", "content": "hi"}]
TOOLS: list[Any] = [{"name": "read", "description": "Reads.", "input_schema": SCHEMA}]


def connect(port: int, key: str = "unused") -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=f"http://127.0.0.1:{port}", api_key=key, max_retries=0)


@pytest.fixture(scope="module")
def client() -> Iterator[anthropic.Anthropic]:
    with serving(make_front(text_script(TEXT)).app) as port, connect(port) as client:
        yield client


@pytest.fixture(scope="module")
def looping() -> Iterator[tuple[Front, anthropic.Anthropic]]:
    front = looping_front()
    with serving(front.app) as port, connect(port) as client:
        yield front, client


def test_create(client: anthropic.Anthropic) -> None:
    message = client.messages.create(model="x", max_tokens=100, messages=HI, system="Be brief.")
    (block,) = message.content
    assert block.type == "text"
    assert block.text == TEXT
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens == len(TEXT.encode()) + 1
    assert message._request_id is not None


def test_stream_helper(client: anthropic.Anthropic) -> None:
    with client.messages.stream(model="x", max_tokens=100, messages=HI) as stream:
        text = "".join(stream.text_stream)
        message = stream.get_final_message()
    assert text == TEXT
    assert message.content[0].type == "text"
    counted = client.messages.count_tokens(model="x", messages=HI)
    assert message.usage.input_tokens == counted.input_tokens


def test_raw_stream(client: anthropic.Anthropic) -> None:
    events = list(client.messages.create(model="x", max_tokens=100, messages=HI, stream=True))
    assert events[0].type == "message_start"
    assert events[0].message.usage.input_tokens == 21
    assert events[-1].type == "message_stop"


def test_beta_client(client: anthropic.Anthropic) -> None:
    message = client.beta.messages.create(
        model="x", max_tokens=100, messages=HI, betas=["context-management-2025-06-27"]
    )
    assert message.content[0].type == "text"


async def test_async() -> None:
    with serving(make_front(text_script(TEXT)).app) as port:
        async with anthropic.AsyncAnthropic(
            base_url=f"http://127.0.0.1:{port}", api_key="x", max_retries=0
        ) as client:
            message = await client.messages.create(model="x", max_tokens=100, messages=HI)
    assert message.content[0].type == "text"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_loop(looping: tuple[Front, anthropic.Anthropic], streamed: bool) -> None:
    _, client = looping
    messages: list[Any] = [{"role": "user", "content": "Add them up."}]
    for number in range(1, NUM_TURNS + 1):
        options: Any = {"model": "x", "max_tokens": 500, "messages": messages, "tools": TOOLS}
        if streamed:
            with client.messages.stream(**options) as stream:
                message: Any = stream.get_final_message()
        else:
            message = client.messages.create(**options)
        assert message.stop_reason == "tool_use"
        text, call = message.content
        assert text.text.strip() == f"Step {number}."
        assert (call.name, call.input) == ("read", {"n": number})
        assert call.id.startswith("toolu_")
        result = {"type": "tool_result", "tool_use_id": call.id, "content": result_of(number)}
        messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
    last = client.messages.create(model="x", max_tokens=500, messages=messages, tools=TOOLS)
    assert (last.stop_reason, last.content[0].text) == ("end_turn", ANSWER)  # type: ignore[union-attr]


def test_later_turns_repeat_the_tokens_of_earlier_ones(looping: tuple[Front, anthropic.Anthropic]) -> None:
    """So that the prompt cache matches: each prompt of a loop begins with the one before it."""
    front, _ = looping
    prompts = [request.prompt_ids for request in front.engine.requests[: NUM_TURNS + 1]]
    for shorter, longer in pairwise(prompts):
        assert longer[: len(shorter)] == shorter


def test_thinking() -> None:
    text = byte_text_model(template=CHATML_TOOLS + "{# </think> #}")
    front = make_front(text_script("<think>Hm.</think>Yes."), text=text)
    with serving(front.app) as port, connect(port) as client:
        message: Any = client.messages.create(model="x", max_tokens=100, messages=HI)
        with client.messages.stream(model="x", max_tokens=100, messages=HI) as stream:
            streamed: Any = stream.get_final_message()
        for found in (message, streamed):
            thinking, answer = found.content
            assert (thinking.thinking, thinking.signature, answer.text) == ("Hm.", "", "Yes.")
        again: list[Any] = [*HI, {"role": "assistant", "content": message.content}, *HI]
        assert client.messages.create(model="x", max_tokens=100, messages=again)


def test_errors_reach_the_sdk_as_its_own(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        client.messages.create(model="x", max_tokens=1, messages=[{"role": "user", "content": "x" * 5000}])
    with pytest.raises(anthropic.NotFoundError):
        client.messages.batches.retrieve("msgbatch_1")


def test_an_error_in_a_stream_raises_in_the_sdk() -> None:
    front = make_front([72, 105, Failure("out of memory")])
    with (
        serving(front.app) as port,
        connect(port) as client,
        pytest.raises(anthropic.APIError, match="memory"),
    ):
        list(client.messages.create(model="x", max_tokens=9, messages=HI, stream=True))


def test_a_key_from_the_sdk() -> None:
    front = make_front(settings=ApiSettings(api_key="right"))
    with serving(front.app) as port:
        with connect(port, "right") as client:
            assert client.messages.create(model="x", max_tokens=9, messages=HI).content
        with connect(port, "wrong") as client, pytest.raises(anthropic.AuthenticationError):
            client.messages.create(model="x", max_tokens=9, messages=HI)
