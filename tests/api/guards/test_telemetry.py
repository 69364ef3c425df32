"""One log line per request where it is wanted, and for every failure."""

import logging
from typing import Any

import pytest
from tests.api.fronts import make_front
from tests.fakes import Failure

from stoker.api import ApiSettings

PATH = "/v1/chat/completions"
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}


def access_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "stoker.access"]


async def test_the_access_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    front = make_front(settings=ApiSettings(access_log=True))
    await front.post(PATH, ASK)
    await front.post(PATH, {})
    await front.get("/no%E2%80%8Bwhere%0A")
    lines = access_lines(caplog)
    assert len(lines) == 3
    assert f'"POST {PATH}" 200' in lines[0]
    assert f'"POST {PATH}" 400' in lines[1]
    assert "\\u200b" in lines[2]
    assert "\n" not in lines[2]


async def test_without_it_only_failures_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    front = make_front([Failure("out of memory")])
    await front.post(PATH, {})
    assert access_lines(caplog) == []
    await front.post(PATH, ASK)
    await front.post(PATH, {**ASK, "stream": True})  # 200 on the wire, a failure all the same
    lines = access_lines(caplog)
    assert len(lines) == 2
    assert all(f'"POST {PATH}" 500' in line for line in lines)
