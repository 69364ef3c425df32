"""`truncation: auto` on a context of 200 byte tokens."""

from typing import Any

import pytest
from tests.api.fronts import Front, make_front

PATH = "/v1/responses"


@pytest.fixture
def small() -> Front:
    return make_front(max_context=200)


def turns(count: int) -> list[dict[str, Any]]:
    """Each turn and its answer is some 30 tokens."""
    items: list[dict[str, Any]] = []
    for number in range(count):
        items += [{"role": "user", "content": f"q{number}"}, {"role": "assistant", "content": f"a{number}"}]
    return [*items, {"role": "user", "content": "last"}]


async def prompt(front: Front, **fields: Any) -> str:
    response = await front.post(PATH, {"model": "m", "truncation": "auto", **fields})
    assert response.status_code == 200, response.text
    return bytes(i for i in front.engine.requests[-1].prompt_ids if i < 256).decode()


async def test_the_oldest_turns_go_and_the_system_prompt_stays(small: Front) -> None:
    shown = await prompt(small, input=turns(20), instructions="S")
    assert shown.startswith("system\nS\nuser\nq")
    assert shown.endswith("a19\nuser\nlast\nassistant\n")
    assert "q0\n" not in shown
    length = len(small.engine.requests[-1].prompt_ids)
    assert 150 - 35 < length <= 150  # a quarter of the context is left for the reply


async def test_more_room_for_a_short_reply(small: Front) -> None:
    await prompt(small, input=turns(20), max_output_tokens=4)
    assert 196 - 35 < len(small.engine.requests[-1].prompt_ids) <= 196


async def test_what_fits_is_left_alone(small: Front) -> None:
    assert "q0\n" in await prompt(small, input=turns(2))


async def test_no_result_loses_its_call(small: Front) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "found"}
    items = [*turns(8)[:-1], {"role": "user", "content": "use it"}, call, result]
    shown = await prompt(small, input=items)
    assert shown.index("use it") < shown.index("found")


async def test_a_last_turn_that_is_too_long(small: Front) -> None:
    body = {"model": "m", "truncation": "auto", "input": [*turns(3), {"role": "user", "content": "x" * 300}]}
    response = await small.post(PATH, body)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"


async def test_disabled_refuses(small: Front) -> None:
    response = await small.post(PATH, {"model": "m", "input": turns(20)})
    assert response.status_code == 400
