"""Server-sent events: one ASGI response that writes frames, keeps idle lines open and notices a
client that has gone.

Knows nothing of what is in a frame; each protocol makes its own bytes. This is the hot path of
every stream: a write is one call into the server where that offers one (`WRITE_NOW`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from json.encoder import encode_basestring
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from stoker.api.disconnect import wait_for_disconnect
from stoker.api.errors import internal_error
from stoker.errors import RequestCancelled, StokerError
from stoker.write_now import WRITE_NOW, WriteNow

log = logging.getLogger(__name__)

KEEP_ALIVE = b": keep-alive\n\n"
STALL_LIMIT_S = 120.0  # a client that takes nothing for so long is given up

# Characters that JSON leaves alone but at which some clients split lines.
_LINE_BREAKS = str.maketrans({0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"})


def json_string(text: str) -> str:
    """`text` as a JSON string that is safe inside one line of an event."""
    quoted = encode_basestring(text)
    return quoted if quoted.isascii() else quoted.translate(_LINE_BREAKS)


def compact(value: Any) -> str:
    """`value` as JSON that is safe inside one line of an event."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


class EventStream(Response):
    """A text/event-stream response.

    `writes` yields the bytes of one or more whole frames; each becomes one write. A StokerError it
    raises becomes `error_frame(error)` and the stream closes. `on_close` is called once whatever
    way the stream ends, also when `writes` was never begun: the place to cancel the work.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        writes: AsyncGenerator[bytes, None],
        *,
        error_frame: Callable[[StokerError], bytes],
        on_close: Callable[[], None],
        heartbeat_s: float,
        headers: Mapping[str, str] | None = None,
        keep_alive: bytes = KEEP_ALIVE,
    ) -> None:
        super().__init__(headers={"cache-control": "no-cache", "connection": "keep-alive", **(headers or {})})
        del self.headers["content-length"]
        self._writes = writes
        self._error_frame = error_frame
        self._on_close = on_close
        self._heartbeat_s = heartbeat_s
        self._keep_alive = keep_alive

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        super().init_headers(headers)
        self.headers["content-type"] = "text/event-stream"  # the contract has no charset here

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _closes(scope):
            del self.headers["connection"]  # the server says that it closes
        writer = _Writer(send, scope.get(WRITE_NOW, _not_now))
        producing = asyncio.ensure_future(self._produce(writer, scope, send))
        gone = asyncio.ensure_future(wait_for_disconnect(receive))
        heart = asyncio.ensure_future(_beat(writer, self._heartbeat_s, self._keep_alive))
        try:
            await asyncio.wait({producing, gone, heart}, return_when=asyncio.FIRST_COMPLETED)
            if not producing.done():
                scope["stoker.status"] = RequestCancelled.status
            else:
                producing.result()
        finally:
            self._on_close()
            for task in (producing, gone, heart):
                task.cancel()
            await asyncio.gather(producing, gone, heart, return_exceptions=True)

    async def _produce(self, writer: _Writer, scope: Scope, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async with aclosing(self._writes) as writes:
                async for data in writes:
                    if not writer.write_now(data):
                        await writer.write(data)
        except StokerError as error:
            scope["stoker.status"] = error.status
            await writer.write(self._error_frame(error))
        except OSError:  # how some servers report a lost client; uvicorn drops the write instead
            scope["stoker.status"] = RequestCancelled.status
            return
        except Exception:
            log.exception("%s failed after its headers were sent", scope["path"])
            scope["stoker.status"] = 500
            await writer.write(self._error_frame(internal_error()))
        await writer.end()


def _closes(scope: Scope) -> bool:
    """Whether the connection ends with this answer."""
    wishes = [value.lower() for name, value in scope["headers"] if name == b"connection"]
    if scope.get("http_version") == "1.0":
        return b"keep-alive" not in wishes
    return b"close" in wishes


class _Writer:
    """One write at a time: `beat` gives way to a write, `write` and `end` wait for a heartbeat."""

    def __init__(self, send: Send, write_now: WriteNow) -> None:
        self._send = send
        self._shortcut = write_now
        self._beating: asyncio.Event | None = None  # set at the end of the heartbeat under way
        self._ended = False
        self.last_write_at = time.monotonic()
        self.writing = False  # True for long: the client does not read

    def write_now(self, data: bytes) -> bool:
        """Whether the server took it at once, as it nearly always does; else `write` it."""
        if self._beating is not None:
            return False
        self.last_write_at = time.monotonic()
        return self._shortcut(data)

    async def write(self, data: bytes) -> None:
        if self._beating is not None:
            await self._beating.wait()
        self.last_write_at = time.monotonic()
        await self._send_piece(data)

    async def beat(self, data: bytes) -> None:
        if self.writing or self._ended:
            return
        self._beating = asyncio.Event()
        self.last_write_at = time.monotonic()
        try:
            await self._send_piece(data)
        finally:
            self._beating.set()
            self._beating = None

    async def end(self) -> None:
        if self._beating is not None:
            await self._beating.wait()
        self._ended = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def idle_s(self) -> float:
        return time.monotonic() - self.last_write_at

    async def _send_piece(self, data: bytes) -> None:
        self.writing = True
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        self.writing = False


def _not_now(data: bytes) -> bool:
    return False


async def _beat(writer: _Writer, every_s: float, keep_alive: bytes) -> None:
    """Writes `keep_alive` after each `every_s` of silence. Returns when the client has not taken a
    write for STALL_LIMIT_S."""
    while True:
        await asyncio.sleep(max(every_s - writer.idle_s(), 0.001))
        if writer.writing:
            if writer.idle_s() >= STALL_LIMIT_S:
                return
            await asyncio.sleep(every_s)
        elif writer.idle_s() >= every_s:
            await writer.beat(keep_alive)
