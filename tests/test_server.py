"""stoker.server: what a connection may send, against a trivial application over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from stoker.config import resolve
from stoker.server import MAX_HEADER_BYTES, GuardedProtocol, bind, build_server
from stoker.write_now import WRITE_NOW

Exchange = Callable[..., Any]


async def echo(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers with the number of body bytes."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    length = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length += len(message.get("body", b""))
        if not message.get("more_body"):
            break
        await asyncio.sleep(0.01)
    body = json.dumps(length).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def running(app: Any = echo) -> AsyncIterator[int]:
    started = asyncio.Event()
    server = build_server(app, resolve({}, environ={}), on_started=started.set)
    listener = bind("127.0.0.1", 0)
    port = listener.getsockname()[1]
    task = asyncio.create_task(server._serve([listener]))
    await started.wait()
    try:
        yield port
    finally:
        server.should_exit = True
        await task


async def exchange(port: int, *pieces: bytes, pause_s: float = 0.0) -> bytes:
    """Sends the pieces with pauses between and returns all that comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for position, piece in enumerate(pieces):
            if position:
                await asyncio.sleep(pause_s)
            writer.write(piece)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
        return await asyncio.wait_for(reader.read(), timeout=10)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def status_and_error(answer: bytes) -> tuple[int, dict[str, str]]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    return int(head.split()[1]), json.loads(body)["error"]


POST = b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GuardedProtocol, "header_timeout_s", 0.3)
    monkeypatch.setattr(GuardedProtocol, "body_idle_timeout_s", 0.3)


async def test_an_ordinary_request_whole_and_in_pieces():
    async with running() as port:
        assert (await exchange(port, POST % 4 + b"abcd")).endswith(b"\r\n\r\n4")
        request = POST % 4 + b"abcd"
        assert (await exchange(port, *[request[i : i + 1] for i in range(len(request))])).endswith(b"4")


async def pieces(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Two pieces of a body by the server's shortcut, between two by messages."""
    if scope["type"] == "lifespan":
        await echo(scope, receive, send)
        return
    write_now = scope[WRITE_NOW]
    assert not write_now(b"too early")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"one", "more_body": True})
    wrote = [write_now(piece) for piece in (b"", b"two", "drei é".encode() * 3)]
    await send({"type": "http.response.body", "body": repr(wrote).encode(), "more_body": False})
    assert not write_now(b"too late")


async def test_pieces_written_at_once_are_chunks_like_others():
    async with running(pieces) as port:
        answer = await exchange(port, b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        head = await exchange(port, b"HEAD / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert answer.partition(b"\r\n\r\n")[2] == (
        b"3\r\none\r\n"
        b"3\r\ntwo\r\n"
        b"15\r\ndrei \xc3\xa9drei \xc3\xa9drei \xc3\xa9\r\n"
        b"13\r\n[False, True, True]\r\n"
        b"0\r\n\r\n"
    )
    assert head.endswith(b"\r\n\r\n")  # and no body


async def test_a_piece_is_not_written_at_once_to_a_client_that_does_not_read():
    refused = asyncio.Event()

    async def flood(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await echo(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while scope[WRITE_NOW](b"x" * 65536):
            pass
        refused.set()
        await send({"type": "http.response.body", "body": b"end", "more_body": False})  # waits

    async with running(flood) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        await asyncio.wait_for(refused.wait(), 10)
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert len(answer) > 65536
    assert answer.endswith(b"x\r\n3\r\nend\r\n0\r\n\r\n")


async def test_a_large_body_is_no_header():
    body = b"x" * (MAX_HEADER_BYTES * 8)
    async with running() as port:
        assert (await exchange(port, POST % len(body) + body)).endswith(str(len(body)).encode())


async def test_two_requests_on_one_connection():
    first = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nab"
    async with running() as port:
        assert (await exchange(port, first + POST % 3 + b"abc")).count(b"HTTP/1.1 200") == 2
        assert (await exchange(port, first, POST % 3 + b"abc", pause_s=0.1)).count(b"HTTP/1.1 200") == 2


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\r\n", b"GET /" + b"p" * MAX_HEADER_BYTES, b""])
async def test_headers_without_end_are_refused(head: bytes):
    line = b"x-filler: " + b"a" * 1000 + b"\r\n"
    async with running() as port:
        answer = await exchange(port, (head or b"GET / HTTP/1.1\r\n") + line * (MAX_HEADER_BYTES // 1000 + 2))
    status, error = status_and_error(answer)
    assert status == 431
    assert str(MAX_HEADER_BYTES) in error["message"]


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"HELLO\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n"],
)
async def test_what_is_not_http_is_a_400_in_json(garbage: bytes):
    async with running() as port:
        assert status_and_error(await exchange(port, garbage))[0] == 400


@pytest.mark.usefixtures("impatient")
async def test_headers_that_do_not_end_in_time():
    async with running() as port:
        # Bytes keep coming, but the whole of the headers has one limit.
        pieces = [b"GET / HTTP/1.1\r\n", *[b"x-a: b\r\n"] * 20]
        assert status_and_error(await exchange(port, *pieces, pause_s=0.05))[0] == 408


@pytest.mark.usefixtures("impatient")
async def test_a_body_that_stalls_is_refused_and_one_that_trickles_is_not():
    async with running() as port:
        assert status_and_error(await exchange(port, POST % 10 + b"abc"))[0] == 408
        trickle = [POST % 6, *[b"a"] * 6]
        assert (await exchange(port, *trickle, pause_s=0.12)).endswith(b"\r\n\r\n6")


@pytest.mark.usefixtures("impatient")
async def test_a_silent_connection_is_closed_without_a_word():
    async with running() as port:
        assert await exchange(port) == b""


async def test_a_bound_port_is_refused_to_others_at_once():
    """Two servers started together: the second must not load a model first and fail then."""
    listener = bind("127.0.0.1", 0)
    try:
        port = listener.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            bind("127.0.0.1", port)
    finally:
        listener.close()


STUCK = """
import asyncio, sys
from stoker import server
from stoker.config import resolve

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
    await asyncio.Event().wait()

server.HURRY_S = 0.2
listener = server.bind("127.0.0.1", 0)
say = lambda *words: print(*words, flush=True)
server.build_server(
    app,
    resolve({}, environ={}),
    on_started=lambda: say(listener.getsockname()[1]),
    on_stopping=lambda: say("stopping"),
).run(sockets=[listener])
"""


def test_the_second_signal_ends_a_process_that_is_stuck():
    with subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "stopping\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 128 + signal.SIGTERM
