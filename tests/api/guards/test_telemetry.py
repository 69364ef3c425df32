"""One log line per request where it is wanted, and for every failure."""

import asyncio
import logging
from typing import Any

import pytest
from tests.api.fronts import make_front
from tests.fakes import Failure

from stoker.api import ApiSettings
from stoker.config import resolve
from stoker.server import GuardedProtocol, bind, build_server

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


async def test_a_body_that_stalls_is_logged_as_what_the_client_was_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(GuardedProtocol, "body_idle_timeout_s", 0.05)
    front = make_front(settings=ApiSettings(access_log=True))
    started = asyncio.Event()
    server = build_server(front.app, resolve({}, environ={}), on_started=started.set)
    listener = bind("127.0.0.1", 0)
    caplog.set_level(logging.INFO, "stoker.access")
    task = asyncio.create_task(server._serve([listener]))
    await started.wait()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
        writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()
    finally:
        server.should_exit = True
        await task
    assert '"POST /v1/completions" 408 ' in caplog.text
