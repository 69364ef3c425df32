"""Clients that go away, on a real server: the rows are free within a step, the log has one line."""

import http.client
import json
import logging
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.api.fronts import Front, make_front, serving

PATH = "/v1/chat/completions"
HI: list[Any] = [{"role": "user", "content": "hi"}]


@pytest.fixture
def server() -> Iterator[tuple[Front, int]]:
    """Every reply is endless, a token per 2 ms; a reply ends at its max_tokens."""
    front = make_front(b"endless ", step_s=0.002, max_context=10_000_000, max_rows=8, max_queued=64)
    with serving(front.app) as port:
        yield front, port


def open_request(port: int, **fields: Any) -> socket.socket:
    body = json.dumps({"messages": HI, **fields}).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
    connection.sendall(head.encode() + body)
    return connection


def read_deltas(connection: socket.socket, count: int) -> None:
    received = b""
    while received.count(b'"content":"') < count + 1:  # the first chunk has empty content
        data = connection.recv(4096)
        assert data, "the stream ended early"
        received += data


def eventually(condition: Callable[[], bool], within_s: float = 2.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.005)


def assert_quiet(front: Front) -> None:
    """No rows, no requests, and the step counter stands still."""
    counters = front.engine.counters
    eventually(lambda: counters.active_rows == 0 and counters.pending_rows == 0)
    eventually(lambda: not front.state.drain.active)
    steps = counters.steps
    time.sleep(0.05)
    assert counters.steps == steps


def assert_serves(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("POST", PATH, json.dumps({"messages": HI, "max_tokens": 7}))
    response = connection.getresponse()
    assert response.status == 200
    assert json.loads(response.read())["choices"][0]["message"]["content"] == "endless"
    connection.close()


def assert_one_line_each(caplog: pytest.LogCaptureFixture, count: int) -> None:
    eventually(lambda: len([r for r in caplog.records if r.name == "stoker.access"]) >= count)
    lines = [record for record in caplog.records if record.levelno >= logging.INFO]
    lines = [record for record in lines if record.name.startswith("stoker") or record.exc_info]
    assert [record.name for record in lines] == ["stoker.access"] * count
    assert all('" 499 ' in record.getMessage() and not record.exc_info for record in lines)


def test_a_stream_closed_after_the_third_delta(
    server: tuple[Front, int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    front, port = server
    connection = open_request(port, stream=True)
    read_deltas(connection, 3)
    connection.close()
    assert_quiet(front)
    assert_one_line_each(caplog, 1)
    assert_serves(port)


def test_a_whole_answer_nobody_waits_for(server: tuple[Front, int], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    front, port = server
    connection = open_request(port, n=2)
    eventually(lambda: front.engine.counters.active_rows == 2)
    connection.close()
    assert_quiet(front)
    assert_one_line_each(caplog, 1)
    assert_serves(port)


@pytest.mark.parametrize("stream", [True, False])
def test_gone_during_prefill(server: tuple[Front, int], stream: bool) -> None:
    front, port = server
    front.engine.prefill_s = 0.2
    connection = open_request(port, stream=stream)
    eventually(lambda: front.engine.counters.active_rows == 1)
    connection.close()
    assert_quiet(front)


@pytest.mark.parametrize("stream", [True, False])
def test_twenty_at_once_most_of_them_queued(
    server: tuple[Front, int], caplog: pytest.LogCaptureFixture, stream: bool
) -> None:
    caplog.set_level(logging.INFO)
    front, port = server
    connections = [open_request(port, stream=stream) for _ in range(20)]
    counters = front.engine.counters
    eventually(lambda: counters.active_rows == 8 and counters.pending_rows == 12)
    for connection in connections:
        connection.close()
    assert_quiet(front)
    assert_one_line_each(caplog, 20)
    assert_serves(port)


def test_a_reset_instead_of_a_close(server: tuple[Front, int]) -> None:
    front, port = server
    connection = open_request(port, stream=True)
    read_deltas(connection, 3)
    linger = (1).to_bytes(4, "little") + bytes(4)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)  # RST
    connection.close()
    assert_quiet(front)
    assert_serves(port)


def test_gone_in_the_middle_of_its_body(server: tuple[Front, int], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    front, port = server
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
        )
        time.sleep(0.05)
    assert_one_line_each(caplog, 1)
    assert not front.engine.requests
    assert_serves(port)


def test_neighbours_go_on(server: tuple[Front, int]) -> None:
    front, port = server
    staying = open_request(port, stream=True, max_tokens=200)
    leaving = open_request(port, stream=True)
    read_deltas(leaving, 3)
    leaving.close()
    received = b""
    while b"data: [DONE]" not in received:
        received += staying.recv(65536)
    staying.close()
    assert received.count(b'"content":"') == 201
    assert_quiet(front)
