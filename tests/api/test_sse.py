"""The stream writer on a hand-made ASGI connection."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from stoker.api.sse import EventStream, json_string
from stoker.errors import GenerationFailed, StokerError


class Connection:
    """Records what is sent; `receive` blocks until `hang_up`."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.scope: dict[str, Any] = {"type": "http", "path": "/v1/chat/completions", "headers": []}
        self._gone = asyncio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    def hang_up(self) -> None:
        self._gone.set()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


class Closes:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def frame(error: StokerError) -> bytes:
    return b"data: " + error.message.encode() + b"\n\n"


def stream(writes: AsyncGenerator[bytes, None], closes: Closes, heartbeat_s: float = 60.0) -> EventStream:
    return EventStream(writes, error_frame=frame, on_close=closes, heartbeat_s=heartbeat_s)


async def two_frames() -> AsyncGenerator[bytes, None]:
    yield b"data: 1\n\n"
    yield b"data: 2\n\ndata: 3\n\n"


async def test_one_write_per_item_and_the_contract_headers() -> None:
    connection, closes = Connection(), Closes()
    await stream(two_frames(), closes)(connection.scope, connection.receive, connection.send)
    start, *bodies = connection.sent
    assert start["status"] == 200
    headers = dict(start["headers"])
    assert headers[b"content-type"] == b"text/event-stream"
    assert headers[b"cache-control"] == b"no-cache"
    assert headers[b"connection"] == b"keep-alive"
    assert b"content-length" not in headers
    assert [b["body"] for b in bodies] == [b"data: 1\n\n", b"data: 2\n\ndata: 3\n\n", b""]
    assert [b["more_body"] for b in bodies] == [True, True, False]
    assert closes.count == 1
    assert "stoker.status" not in connection.scope


@pytest.mark.parametrize(
    ("version", "wish", "keeps"),
    [
        ("1.1", b"close", False),
        ("1.1", b"Close", False),
        ("1.1", b"keep-alive", True),
        ("1.0", b"", False),
        ("1.0", b"keep-alive", True),
    ],
)
async def test_keep_alive_is_not_promised_on_a_connection_that_closes(
    version: str, wish: bytes, keeps: bool
) -> None:
    connection = Connection()
    connection.scope |= {"http_version": version, "headers": [(b"connection", wish)]}
    await stream(two_frames(), Closes())(connection.scope, connection.receive, connection.send)
    assert (b"connection" in dict(connection.sent[0]["headers"])) == keeps


async def test_silence_is_filled_with_comments_between_frames() -> None:
    async def slow() -> AsyncGenerator[bytes, None]:
        await asyncio.sleep(0.25)
        yield b"data: 1\n\n"

    connection = Connection()
    await stream(slow(), Closes(), heartbeat_s=0.1)(connection.scope, connection.receive, connection.send)
    assert connection.body == b": keep-alive\n\n: keep-alive\n\ndata: 1\n\n"


async def test_no_comment_while_frames_flow() -> None:
    async def steady() -> AsyncGenerator[bytes, None]:
        for _ in range(10):
            await asyncio.sleep(0.03)
            yield b"data: 1\n\n"

    connection = Connection()
    await stream(steady(), Closes(), heartbeat_s=0.15)(connection.scope, connection.receive, connection.send)
    assert connection.body == b"data: 1\n\n" * 10


async def test_an_error_is_the_last_frame() -> None:
    async def failing() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"
        raise GenerationFailed("out of memory")

    connection, closes = Connection(), Closes()
    await stream(failing(), closes)(connection.scope, connection.receive, connection.send)
    assert connection.body == b"data: 1\n\ndata: out of memory\n\n"
    assert connection.sent[-1]["more_body"] is False
    assert connection.scope["stoker.status"] == 500
    assert closes.count == 1


async def test_a_lost_client_ends_the_work() -> None:
    ended = asyncio.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                await asyncio.sleep(0.001)
                yield b"data: 1\n\n"
        finally:
            ended.set()

    connection, closes = Connection(), Closes()
    response = stream(endless(), closes)
    running = asyncio.create_task(response(connection.scope, connection.receive, connection.send))
    await asyncio.sleep(0.03)
    connection.hang_up()
    await asyncio.wait_for(running, 1)
    assert ended.is_set()
    assert closes.count == 1
    assert connection.scope["stoker.status"] == 499


async def test_a_client_lost_before_the_first_frame() -> None:
    connection, closes = Connection(), Closes()
    connection.hang_up()

    async def never() -> AsyncGenerator[bytes, None]:
        await asyncio.Event().wait()
        yield b""

    await asyncio.wait_for(stream(never(), closes)(connection.scope, connection.receive, connection.send), 1)
    assert closes.count == 1


async def test_an_unexpected_exception_does_not_show_its_text(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> AsyncGenerator[bytes, None]:
        yield b"data: 1\n\n"
        raise RuntimeError("secret")

    connection = Connection()
    await stream(broken(), Closes())(connection.scope, connection.receive, connection.send)
    assert connection.body.startswith(b"data: 1\n\ndata: internal error")
    assert b"secret" not in connection.body
    assert "secret" in caplog.text
    assert connection.scope["stoker.status"] == 500


async def test_a_send_that_fails_counts_as_a_lost_client(caplog: pytest.LogCaptureFixture) -> None:
    connection, closes = Connection(), Closes()

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            raise BrokenPipeError

    await stream(two_frames(), closes)(connection.scope, connection.receive, send)
    assert connection.scope["stoker.status"] == 499
    assert closes.count == 1
    assert not caplog.records


async def test_a_client_that_stops_reading_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.api.sse.STALL_LIMIT_S", 0.1)
    connection, closes = Connection(), Closes()

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    response = stream(two_frames(), closes, heartbeat_s=0.03)
    await asyncio.wait_for(response(connection.scope, connection.receive, send), 2)
    assert connection.scope["stoker.status"] == 499
    assert closes.count == 1


def test_json_strings_are_exact_and_stay_on_one_line() -> None:
    text = 'a"\\\n\r\t\x00\x1f é 你好 🌍 \x85\u2028\u2029 end'
    quoted = json_string(text)
    assert json.loads(quoted) == text
    assert len(quoted.splitlines()) == 1
    assert "你好" in quoted
