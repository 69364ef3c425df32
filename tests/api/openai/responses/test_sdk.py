"""The official openai SDK's responses against a real server on a scripted engine."""

from collections.abc import Iterator
from typing import Any

import openai
import pydantic
import pytest
from tests.api.fronts import make_front, serving
from tests.api.loops import ANSWER, NUM_TURNS, SCHEMA, looping_front, result_of
from tests.fakes import Failure, text_script

TEXT = "Hé 你好 🌍!"
TOOLS: list[Any] = [
    {"type": "function", "name": "read", "description": "Reads.", "parameters": SCHEMA, "strict": False}
]


class City(pydantic.BaseModel):
    name: str
    people: int


def connect(port: int) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="unused", max_retries=0)


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    with serving(make_front(text_script(TEXT)).app) as port, connect(port) as client:
        yield client


@pytest.fixture(scope="module")
def looping() -> Iterator[openai.OpenAI]:
    with serving(looping_front().app) as port, connect(port) as client:
        yield client


def test_create_and_go_on(client: openai.OpenAI) -> None:
    first = client.responses.create(model="x", input="hi", instructions="Be brief.")
    assert first.output_text == TEXT
    assert first.usage is not None
    assert first.usage.output_tokens == len(TEXT.encode()) + 1
    second = client.responses.create(model="x", input="more", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert client.responses.retrieve(second.id).output_text == TEXT
    items = client.responses.input_items.list(second.id, order="asc", limit=2)
    assert [item.type for item in items] == ["message", "message", "message"]  # fetches both pages
    client.responses.delete(second.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(second.id)


def test_stream_helper(client: openai.OpenAI) -> None:
    with client.responses.stream(model="x", input="hi") as stream:
        text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        response = stream.get_final_response()
    assert text == response.output_text == TEXT


def test_parse() -> None:
    front = make_front(text_script('{"name": "Paris", "people": 2}'))
    # No grammar here: that the reply is held to the schema is structured output's own test.
    object.__setattr__(front.state, "compile_constraint", lambda constraint: None)
    with serving(front.app) as port, connect(port) as client:
        response = client.responses.parse(model="x", input="hi", text_format=City)
        assert response.output_parsed == City(name="Paris", people=2)
    (request,) = front.engine.requests
    assert request.constraint is not None
    assert request.constraint.kind == "json_schema"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("stored", [False, True])
def test_a_tool_loop(looping: openai.OpenAI, streamed: bool, stored: bool) -> None:
    """The client sends everything again, or leaves the history to the server."""
    items: list[Any] = [{"role": "user", "content": "Add them up."}]
    options: dict[str, Any] = {"model": "x", "tools": TOOLS, "store": stored}
    for number in range(1, NUM_TURNS + 1):
        if streamed:
            with looping.responses.stream(input=items, **options) as stream:
                response: Any = stream.get_final_response()
        else:
            response = looping.responses.create(input=items, **options)
        text, call = response.output
        assert text.content[0].text.strip() == f"Step {number}."
        assert (call.name, call.arguments) == ("read", f'{{"n": {number}}}')
        result = {"type": "function_call_output", "call_id": call.call_id, "output": result_of(number)}
        if stored:
            items, options["previous_response_id"] = [result], response.id
        else:
            items += [*response.output, result]
    assert looping.responses.create(input=items, **options).output_text == ANSWER


async def test_async() -> None:
    with serving(make_front(text_script(TEXT)).app) as port:
        async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x") as client:
            assert (await client.responses.create(model="x", input="hi")).output_text == TEXT


def test_errors_reach_the_sdk_as_its_own(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="x", input="x" * 5000)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError, match="resp_gone"):
        client.responses.create(model="x", input="x", previous_response_id="resp_gone")


def test_a_failure_in_a_stream() -> None:
    front = make_front([72, 105, Failure("out of memory")])
    with serving(front.app) as port, connect(port) as client:
        *_, error, failed = client.responses.create(model="x", input="hi", stream=True)
    assert error.type == "error"
    assert failed.type == "response.failed"
    assert failed.response.error is not None
    assert failed.response.error.message == "out of memory"
