"""The stream of events between the engine thread and a reader."""

from __future__ import annotations

import asyncio
import threading

import pytest

from stoker.core import ErrorEvent, FinishEvent, PromptEvent, TokenEvent
from stoker.engine.handle import GenerationHandle


def make_handle(num_choices: int = 1) -> GenerationHandle:
    return GenerationHandle(
        "r", num_choices, request_stop=lambda handle, index: None, request_cancel=lambda handle: None
    )


def deliver_in_a_thread(handle: GenerationHandle, *batches: list) -> None:
    def run() -> None:
        for batch in batches:
            handle.deliver(batch)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


async def test_what_came_meanwhile_comes_together_and_in_order():
    handle = make_handle()
    first, second, end = TokenEvent(0, 1), TokenEvent(0, 2), FinishEvent(0, "stop")
    deliver_in_a_thread(handle, [PromptEvent(3, 0)], [first], [second, end])
    assert await handle.next_batch() == [PromptEvent(3, 0), first, second, end]
    assert await handle.next_batch() == []


async def test_a_waiting_reader_is_woken():
    handle = make_handle()
    for token_id in range(20):
        reading = asyncio.create_task(handle.next_batch())
        await asyncio.sleep(0)
        assert not reading.done()
        deliver_in_a_thread(handle, [TokenEvent(0, token_id)])
        assert await asyncio.wait_for(reading, 5) == [TokenEvent(0, token_id)]


async def test_a_stopped_choice_is_silent_and_the_others_go_on():
    handle = make_handle(2)
    handle.stop(0)
    deliver_in_a_thread(handle, [TokenEvent(0, 1), FinishEvent(0, "length")])
    reading = asyncio.create_task(handle.next_batch())
    await asyncio.sleep(0)
    deliver_in_a_thread(handle, [TokenEvent(0, 2), TokenEvent(1, 3)])
    assert await asyncio.wait_for(reading, 5) == [TokenEvent(1, 3)]
    handle.stop(1)
    assert await handle.next_batch() == []


async def test_nothing_follows_an_error():
    handle = make_handle(2)
    deliver_in_a_thread(handle, [TokenEvent(1, 1), ErrorEvent("broken"), TokenEvent(0, 2)])
    assert await handle.next_batch() == [TokenEvent(1, 1), ErrorEvent("broken")]
    assert await handle.next_batch() == []


async def test_a_reader_that_was_cancelled_loses_nothing():
    handle = make_handle()
    reading = asyncio.create_task(handle.next_batch())
    await asyncio.sleep(0)
    deliver_in_a_thread(handle, [TokenEvent(0, 1)])  # the wake-up is on its way
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await asyncio.sleep(0)
    deliver_in_a_thread(handle, [TokenEvent(0, 2)])
    assert await handle.next_batch() == [TokenEvent(0, 1), TokenEvent(0, 2)]


def test_a_loop_that_closed_under_its_reader_is_no_error():
    handle = make_handle()

    async def wait_in_vain() -> None:
        with pytest.raises(asyncio.CancelledError):
            await handle.next_batch()

    loop = asyncio.new_event_loop()
    reading = loop.create_task(wait_in_vain())
    loop.run_until_complete(asyncio.sleep(0))
    late = handle._wake  # as the engine thread may have taken it a moment before
    reading.cancel()
    loop.run_until_complete(reading)
    loop.close()
    handle._wake = late
    handle.deliver([TokenEvent(0, 1)])
    assert next(handle.batches_blocking()) == [TokenEvent(0, 1)]


def test_a_thread_reads_to_the_end():
    handle = make_handle()
    read: list = []
    reader = threading.Thread(target=lambda: read.extend(handle.batches_blocking()))
    reader.start()
    for token_id in range(50):
        handle.deliver([TokenEvent(0, token_id)])
    handle.deliver([FinishEvent(0, "stop")])
    reader.join(5)
    assert not reader.is_alive()
    events = [event for batch in read for event in batch]
    assert events == [*(TokenEvent(0, token_id) for token_id in range(50)), FinishEvent(0, "stop")]
