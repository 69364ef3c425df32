"""The load generator's parsers, with every stream cut in every place."""

from __future__ import annotations

import pytest
from benchmarks.wire import ChunkedBody, Endpoint, Exchange, SSESplitter, parse_reply, post
from tests.benchmarks.sse_server import Script, chat_frames, serving

_EVENTS = b': comment\r\ndata: {"a": 1}\r\n\r\nevent: x\ndata: first\ndata:second\n\n\n\ndata: [DONE]\n\n'
_PAYLOADS = [b'{"a": 1}', b"first\nsecond", b"[DONE]"]


@pytest.mark.parametrize("size", range(1, len(_EVENTS) + 1))
def test_sse_payloads_do_not_depend_on_the_cuts(size: int) -> None:
    splitter = SSESplitter()
    pieces = [_EVENTS[i : i + size] for i in range(0, len(_EVENTS), size)]
    assert [payload for piece in pieces for payload in splitter.feed(piece)] == _PAYLOADS


@pytest.mark.parametrize("size", range(1, 40))
def test_chunked_bodies_do_not_depend_on_the_cuts(size: int) -> None:
    wire = b"5\r\nhello\r\n1;name=value\r\n,\r\nA\r\n 0\r\n\r\nworl\r\n1\r\nd\r\n0\r\n\r\n"
    chunked = ChunkedBody()
    pieces = [wire[i : i + size] for i in range(0, len(wire), size)]
    assert b"".join(chunked.feed(piece) for piece in pieces) == b"hello, 0\r\n\r\nworld"


def test_a_frame_has_the_time_of_the_read_that_completed_it() -> None:
    reads = (
        (1.0, b"HTTP/1.1 200 OK\r\nServer: x\r\n"),
        (2.0, b"\r\ndata: one\n\ndata: t"),
        (3.0, b"wo\n\ndata: [DONE]\n\n"),
    )
    reply = parse_reply(Exchange(0.5, reads))
    assert reply.status == 200
    assert reply.frames == ((2.0, b"one"), (3.0, b"two"))


def test_a_connection_closed_without_an_answer_is_an_error() -> None:
    with pytest.raises(ConnectionError):
        parse_reply(Exchange(0.0, ((1.0, b"HTTP/1.1 200 OK\r\n"),)))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8080", Endpoint("127.0.0.1", 8080, "/v1", False)),
        ("localhost:9000/v1/", Endpoint("localhost", 9000, "/v1", False)),
        ("https://example.org/openai/v1", Endpoint("example.org", 443, "/openai/v1", True)),
    ],
)
def test_urls(url: str, expected: Endpoint) -> None:
    assert Endpoint.from_url(url) == expected


def test_other_schemes_are_refused() -> None:
    with pytest.raises(ValueError, match="ftp"):
        Endpoint.from_url("ftp://example.org")


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_request_and_its_stream_over_a_socket(chunked: bool) -> None:
    whole = b"".join(chat_frames(["a", "\ndata: [DONE]", "b"]))
    script = Script([whole[i : i + 7] for i in range(0, len(whole), 7)], chunked=chunked)
    async with serving(script) as endpoint:
        reply = parse_reply(await post(endpoint, "/chat/completions", {"stream": True}, timeout_s=10))
    assert len(reply.frames) == 5  # role, three pieces, finish
    [request] = script.requests
    assert request.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert request.endswith(b'\r\n\r\n{"stream": true}')
