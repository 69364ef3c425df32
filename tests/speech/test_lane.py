"""One take at a time, in order, and an engine that gets its device back between slices."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from tests.speech.fakes import LentDevice

from stoker.errors import RequestCancelled, Unavailable
from stoker.speech.lane import Lane


def test_the_device_is_lent_while_the_lane_is_held(device: LentDevice) -> None:
    lane = Lane(device)
    with lane.hold():
        assert device.busy
    device.await_idle()


def test_it_goes_back_when_the_slice_is_used_up(device: LentDevice) -> None:
    lane = Lane(device, slice_s=0.0)
    with lane.hold():
        for _ in range(5):
            lane.yield_device()
    assert device.steps == 6


def test_it_is_not_borrowed_for_work_aside(device: LentDevice) -> None:
    lane = Lane(device)
    with lane.hold():
        with lane.aside():
            device.await_idle()
        assert device.busy
        with pytest.raises(ValueError, match="boom"), lane.aside():
            raise ValueError("boom")
        assert device.busy
    device.await_idle()


def test_a_slice_that_is_not_used_up_goes_on(device: LentDevice) -> None:
    lane = Lane(device, slice_s=1000.0)
    with lane.hold():
        for _ in range(5):
            lane.yield_device()
    assert device.steps == 1


def test_first_come_first_served() -> None:
    lane, order = Lane(), []

    def take(number: int) -> None:
        with lane.hold():
            order.append(number)

    threads = []
    with lane.hold():
        for number in range(8):
            threads.append(threading.Thread(target=take, args=(number,)))
            threads[-1].start()
            while lane.num_waiting < number + 2:
                time.sleep(0.001)
    for thread in threads:
        thread.join(10)
    assert order == list(range(8))


def test_a_waiting_take_can_leave_without_disturbing_the_holder(device: LentDevice) -> None:
    lane, stop, left = Lane(device), threading.Event(), []

    def wait() -> None:
        try:
            with lane.hold(stop.is_set):
                pass
        except RequestCancelled:
            left.append(True)

    with lane.hold():
        waiting = threading.Thread(target=wait)
        waiting.start()
        while lane.num_waiting < 2:
            time.sleep(0.001)
        stop.set()
        lane.wake()
        waiting.join(10)
        assert left
        assert device.busy
    with lane.hold():
        pass


def test_the_lane_is_free_after_a_failure(device: LentDevice) -> None:
    lane = Lane(device)
    with pytest.raises(ValueError, match="boom"), lane.hold():
        raise ValueError("boom")
    with lane.hold():
        assert device.busy


def test_an_engine_that_ends_instead() -> None:
    class Ending:
        def run_between(self, work: Callable[[], Any]) -> Future[Any]:
            future: Future[Any] = Future()
            future.cancel()
            return future

    lane = Lane(Ending())
    with pytest.raises(Unavailable), lane.hold():
        pass
    assert lane.num_waiting == 0
