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
    async with asyncio.timeout(3):
        while front.engine.counters.active_rows:  # until the step under way is done
            await asyncio.sleep(0.005)
    steps = front.engine.counters.steps
    await asyncio.sleep(0.05)
    assert front.engine.counters.steps == steps


async def test_a_long_step_keeps_nobody_from_being_told() -> None:
    """The engine answers a cancellation after its step; here that takes longer than the whole shutdown."""
    front = make_front(prefill_s=30)
    front.state.drain.attach(asyncio.get_running_loop(), limit_s=60)
    stream = asyncio.create_task(front.post(PATH, {**ASK, "stream": True}))
    await asyncio.sleep(0.05)
    front.state.drain.begin()
    front.state.drain.end()
    (last,) = frames((await asyncio.wait_for(stream, 5)).text)
    assert last == {"error": {"message": "the server is shutting down"}}


async def test_what_comes_out_of_preparation_too_late_is_told_as_well() -> None:
    front = make_front(step_s=0.01)
    front.state.drain.attach(asyncio.get_running_loop(), limit_s=60)
    front.state.drain.end()
    await asyncio.sleep(0)
    assert (await front.post(PATH, ASK)).status_code == 503
