"""Fault B33: what does not fit the context is refused before any byte of a stream, and what nearly fills it
gets what is left; on every route, whole and streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.api.fronts import Front, make_front

TEXT = "a question of some length"
MESSAGES = [{"role": "user", "content": TEXT}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES, "max_tokens": 100},
    "/v1/completions": {"prompt": TEXT, "max_tokens": 100},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 100},
    "/v1/responses": {"input": TEXT, "max_output_tokens": 100},
}
ROUTES = pytest.mark.parametrize("path", BODIES)
STREAMED = pytest.mark.parametrize("stream", [False, True])


async def prompt_tokens(path: str) -> int:
    front = make_front(b"endless ")
    await front.post(path, BODIES[path])
    (request,) = front.engine.requests
    return len(request.prompt_ids)


async def ask(path: str, room: int, *, stream: bool) -> tuple[Front, Any]:
    front = make_front(b"endless ", max_context=await prompt_tokens(path) + room)
    return front, await front.post(path, {**BODIES[path], "stream": stream})


@STREAMED
@ROUTES
async def test_no_room_is_a_400_that_names_both_numbers(path: str, stream: bool) -> None:
    front, response = await ask(path, 0, stream=stream)
    assert response.status_code == 400
    assert response.headers["content-type"].startswith("application/json")
    error = response.json()["error"]
    assert "prompt is too long" in error["message"]
    assert error["message"].count(str(front.engine.max_context)) == 2  # the prompt is as long as the context
    if path == "/v1/messages":
        assert error["type"] == "invalid_request_error"
    else:
        assert error["code"] == "context_length_exceeded"


@STREAMED
@ROUTES
async def test_room_for_two_gives_two(path: str, stream: bool) -> None:
    _, response = await ask(path, 2, stream=stream)
    assert response.status_code == 200
    if not stream:
        answers = [response.json()]
    else:
        lines = [line for line in response.text.split("\n") if line.startswith("data: {")]
        answers = [json.loads(line.removeprefix("data: ")) for line in lines]
    answers = [answer.get("response", answer) for answer in answers]  # of a Responses event
    used = [answer["usage"] for answer in answers if answer.get("usage")][-1]
    assert used.get("completion_tokens", used.get("output_tokens")) == 2
    ending = [found for answer in answers if (found := _ending(answer))][-1]
    assert ending == {"/v1/messages": "max_tokens", "/v1/responses": "incomplete"}.get(path, "length")


def _ending(answer: dict[str, Any]) -> str | None:
    """Why an answer ended, or a part of a stream says that it did."""
    if "choices" in answer:
        return next((choice["finish_reason"] for choice in answer["choices"]), None)
    delta = answer.get("delta")
    return (delta if isinstance(delta, dict) else answer).get("stop_reason") or answer.get("status")
