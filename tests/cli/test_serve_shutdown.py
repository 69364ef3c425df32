"""The end of a server with streams under way: none is cut without a word. A real process, raw sockets."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable
from typing import Any

import pytest
from tests.cli.running import Server

NUM_TOKENS = 90_000  # more than any test waits for
HI = [{"role": "user", "content": "hi"}]
# The tiny model never ends a text by itself at temperature 0.
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": HI, "max_tokens": NUM_TOKENS},
    "/v1/completions": {"prompt": "hi", "max_tokens": NUM_TOKENS},
    "/v1/messages": {"messages": HI, "max_tokens": NUM_TOKENS},
    "/v1/responses": {"input": "hi", "max_output_tokens": NUM_TOKENS},
}
TOLD = "the server is shutting down"


def post(port: int, path: str, body: dict[str, Any]) -> socket.socket:
    content = json.dumps(body).encode()
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n\r\n"
    connection.sendall(head.encode() + content)
    return connection


def begin_streams(server: Server) -> dict[str, tuple[socket.socket, bytes]]:
    """One of each protocol, with the first bytes of its text."""
    begun = {}
    for path, body in BODIES.items():
        connection = post(server.port, path, {**body, "stream": True, "temperature": 0})
        received = b""
        while b"delta" not in received and b'"text":' not in received:
            received += connection.recv(65536)
        begun[path] = (connection, received)
    return begun


def read_to_end(connection: socket.socket, received: bytes) -> list[dict[str, Any]]:
    """The objects of a chunked stream of events; it must end as HTTP has it and the connection close."""
    with connection:
        while piece := connection.recv(65536):
            received += piece
    head, _, rest = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    body = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        body, end, rest = body + rest[:length], rest[length : length + 2], rest[length + 2 :]
        assert end == b"\r\n"
        if not length:
            break
    assert not rest
    lines = [line for line in body.decode().split("\n") if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def assert_each_was_told(begun: dict[str, tuple[socket.socket, bytes]]) -> None:
    events = {path: read_to_end(*stream) for path, stream in begun.items()}
    assert events["/v1/chat/completions"][-1] == {"error": {"message": TOLD}}
    assert events["/v1/completions"][-1] == {"error": {"message": TOLD}}
    messages = events["/v1/messages"]
    assert [event["type"] for event in messages[-4:]] == [
        "content_block_stop",
        "error",
        "message_delta",
        "message_stop",
    ]
    assert messages[-3]["error"] == {"type": "api_error", "message": TOLD}
    responses = events["/v1/responses"]
    assert responses[-2]["type"] == "error"
    assert responses[-2]["message"] == TOLD
    assert responses[-1]["type"] == "response.failed"
    assert responses[-1]["response"]["status"] == "failed"


@pytest.mark.parametrize(("first", "second"), [("SIGTERM", "SIGTERM"), ("SIGINT", "SIGINT")])
def test_a_second_signal_tells_every_stream(serve: Callable[..., Server], first: str, second: str) -> None:
    server = serve()
    whole = post(server.port, "/v1/chat/completions", {**BODIES["/v1/chat/completions"], "temperature": 0})
    begun = begin_streams(server)
    server.process.send_signal(getattr(signal, first))
    server.wait_for("Stopping; ")
    server.process.send_signal(getattr(signal, second))
    assert_each_was_told(begun)
    with whole:
        assert whole.recv(65536).startswith(b"HTTP/1.1 503 ")
    assert server.wait() == 128 + getattr(signal, second)
    assert not any("Traceback" in line for line in server.lines)


def test_the_time_limit_tells_every_stream(serve: Callable[..., Server]) -> None:
    server = serve("--shutdown-timeout-ms", "1500")
    begun = begin_streams(server)
    server.process.send_signal(signal.SIGTERM)
    assert_each_was_told(begun)
    assert server.wait() == 0
    assert not any("Traceback" in line for line in server.lines)


def test_a_third_signal_ends_it_at_once(serve: Callable[..., Server]) -> None:
    server = serve()
    connection, response = server.stream(NUM_TOKENS)
    server.process.send_signal(signal.SIGTERM)
    server.wait_for("Stopping; ")
    server.process.send_signal(signal.SIGTERM)
    server.process.send_signal(signal.SIGINT)
    assert server.wait() in (128 + signal.SIGTERM, 128 + signal.SIGINT)
    response.close()
    connection.close()
