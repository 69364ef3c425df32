"""The least HTTP a load generator needs: one request per connection, bytes kept with their arrival times.

Not a general client. The load generator shares the machine's cores with the server it measures, so while
tokens arrive it only appends to a list; chunks, SSE frames and JSON are decoded after the last byte.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

_END_OF_STREAM = b"\ndata: [DONE]"  # a newline inside JSON is escaped, so text cannot contain this


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server listens. `base_path` is what precedes `/chat/completions`, usually `/v1`."""

    host: str
    port: int
    base_path: str = "/v1"
    tls: bool = False
    api_key: str | None = None

    @classmethod
    def from_url(cls, url: str, api_key: str | None = None) -> Endpoint:
        """Accepts `http://host:port`, with or without `/v1` or another prefix. Raises ValueError."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not an http(s) URL: {url}")
        tls = parts.scheme == "https"
        path = parts.path.rstrip("/") or "/v1"
        return cls(parts.hostname, parts.port or (443 if tls else 80), path, tls, api_key)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}{self.base_path}"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One finished request: when it was sent and each read with its time (seconds, monotonic)."""

    sent_at: float
    reads: tuple[tuple[float, bytes], ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """A parsed response. `frames` are SSE payloads without `[DONE]`; `body` is everything, for plain JSON."""

    status: int
    body: bytes
    frames: tuple[tuple[float, bytes], ...]

    def json(self) -> Any:
        return json.loads(self.body)


class _Recorder(asyncio.Protocol):
    """Sends the request and keeps what comes back; `done` resolves at `[DONE]` or at the connection's end."""

    def __init__(self, request: bytes, done: asyncio.Future[None]) -> None:
        self._request = request
        self._done = done
        self._tail = b""
        self.reads: list[tuple[float, bytes]] = []
        self.sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self.sent_at = time.perf_counter()
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.reads.append((time.perf_counter(), data))
        window = self._tail + data
        if _END_OF_STREAM in window:
            self._finish()
            self._transport.close()
        self._tail = window[-len(_END_OF_STREAM) :]

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish()

    def _finish(self) -> None:
        if not self._done.done():
            self._done.set_result(None)


async def post(endpoint: Endpoint, path: str, body: dict[str, Any], timeout_s: float = 600.0) -> Exchange:
    """POST `body` as JSON to base_path + path. Raises OSError when nobody listens, TimeoutError."""
    return await _exchange(
        endpoint, _request_bytes(endpoint, "POST", endpoint.base_path + path, body), timeout_s
    )


async def get(endpoint: Endpoint, path: str, timeout_s: float = 10.0) -> Reply:
    """GET an absolute path (`/health`, `/v1/models`)."""
    return parse_reply(await _exchange(endpoint, _request_bytes(endpoint, "GET", path, None), timeout_s))


async def _exchange(endpoint: Endpoint, request: bytes, timeout_s: float) -> Exchange:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    context = ssl.create_default_context() if endpoint.tls else None
    transport, recorder = await loop.create_connection(
        lambda: _Recorder(request, done), endpoint.host, endpoint.port, ssl=context
    )
    try:
        await asyncio.wait_for(done, timeout_s)
    finally:
        transport.close()
    return Exchange(recorder.sent_at, tuple(recorder.reads))


def _request_bytes(endpoint: Endpoint, method: str, path: str, body: dict[str, Any] | None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    headers = [
        f"{method} {path} HTTP/1.1",
        f"Host: {endpoint.host}:{endpoint.port}",
        "Accept: */*",
        "Connection: close",
    ]
    if body is not None:
        headers += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    if endpoint.api_key:
        headers.append(f"Authorization: Bearer {endpoint.api_key}")
    return "\r\n".join([*headers, "", ""]).encode() + content


class SSESplitter:
    """Cuts a byte stream into SSE `data:` payloads; an event's lines are joined, comments dropped."""

    def __init__(self) -> None:
        self._buffer = b""
        self._lines: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads completed by `data`, in order."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        payloads = []
        for line in lines:
            line = line.rstrip(b"\r")
            if line.startswith(b"data:"):
                self._lines.append(line[5:].removeprefix(b" "))
            elif not line and self._lines:
                payloads.append(b"\n".join(self._lines))
                self._lines = []
        return payloads


class ChunkedBody:
    """Undoes `Transfer-Encoding: chunked`, whatever the cuts (RFC 9112, section 7.1)."""

    def __init__(self) -> None:
        self._buffer = b""
        self._left = 0  # bytes of the current chunk, its closing CRLF included
        self._ended = False

    def feed(self, data: bytes) -> bytes:
        self._buffer += data
        out = []
        while self._buffer and not self._ended:
            if self._left == 0:
                line, found, rest = self._buffer.partition(b"\r\n")
                if not found:
                    break
                size = int(line.split(b";")[0], 16)
                if size == 0:
                    self._ended = True  # only trailers can follow
                    break
                self._left, self._buffer = size + 2, rest
            piece = self._buffer[: self._left]
            # The last two bytes of the counted run are the chunk's CRLF.
            out.append(piece[: max(0, self._left - 2)])
            self._left -= len(piece)
            self._buffer = self._buffer[len(piece) :]
        return b"".join(out)


def parse_reply(exchange: Exchange) -> Reply:
    """Status, body and timed SSE frames. A frame's time is that of the read that completed it. Raises
    ConnectionError when the server closed before the end of the headers."""
    head = b""
    body: list[bytes] = []
    frames: list[tuple[float, bytes]] = []
    splitter = SSESplitter()
    chunked: ChunkedBody | None = None
    status = 0
    for at, data in exchange.reads:
        if not status:
            head, found, data = (head + data).partition(b"\r\n\r\n")
            if not found:
                continue
            status = int(head.split(b" ", 2)[1])
            if b"transfer-encoding: chunked" in head.lower():
                chunked = ChunkedBody()
        content = chunked.feed(data) if chunked else data
        body.append(content)
        frames += [(at, payload) for payload in splitter.feed(content) if payload != b"[DONE]"]
    if not status:
        raise ConnectionError("the server closed the connection without an answer")
    return Reply(status, b"".join(body), tuple(frames))
