"""Graceful shutdown of the application."""

import asyncio
from typing import Any

from tests.api.fronts import frames, make_front

from stoker.api import ApiSettings

PATH = "/v1/chat/completions"
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}


async def test_new_requests_are_sent_away_and_running_ones_finish() -> None:
    front = make_front(step_s=0.01)
    front.state.drain.attach(asyncio.get_running_loop(), limit_s=10)
    running = asyncio.create_task(front.post(PATH, ASK))
    await asyncio.sleep(0.04)
    front.state.drain.begin()
    front.state.drain.begin()
    refused = await front.post(PATH, ASK)
    assert refused.status_code == 503
    assert refused.json()["error"]["message"] == "the server is shutting down"
    assert refused.headers["connection"] == "close"
    assert int(refused.headers["retry-after"]) > 0
    assert (await front.get("/health")).status_code == 503
    reply = await running
    assert reply.json()["choices"][0]["message"]["content"] == "Hello there."


async def test_what_is_left_at_the_limit_is_cancelled_and_told() -> None:
    front = make_front(b"endless ", settings=ApiSettings(), step_s=0.005, max_context=100_000)
    front.state.drain.attach(asyncio.get_running_loop(), limit_s=0.6)
    whole = asyncio.create_task(front.post(PATH, ASK))
    stream = asyncio.create_task(front.post(PATH, {**ASK, "stream": True}))
    await asyncio.sleep(0.05)
    assert len(front.state.drain.active) == 2
    front.state.drain.begin()
    response = await asyncio.wait_for(whole, 3)
    assert response.status_code == 503
    *_, last = frames((await asyncio.wait_for(stream, 3)).text)
    assert last == {"error": {"message": "the server is shutting down"}}
    assert not front.state.drain.active
    steps = front.engine.counters.steps
    await asyncio.sleep(0.05)
    assert front.engine.counters.steps == steps
