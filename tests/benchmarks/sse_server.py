"""A server that streams a fixed script of SSE frames, cut wherever the test wants. No HTTP library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.wire import Endpoint


def chat_frames(pieces: Sequence[str], usage: dict[str, Any] | None = None) -> list[bytes]:
    """A role chunk, one chunk per piece, the finish, and `[DONE]`."""

    def frame(delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return b"data: " + json.dumps({"choices": [choice], **more}).encode() + b"\n\n"

    last = frame({}, "length", **({"usage": usage} if usage else {}))
    return [
        frame({"role": "assistant", "content": ""}),
        *(frame({"content": piece}) for piece in pieces),
        last,
        b"data: [DONE]\n\n",
    ]


@dataclass
class Script:
    """`writes` are sent one by one, `pause_s` apart; each becomes an HTTP chunk when `chunked`."""

    writes: Sequence[bytes]
    pause_s: float = 0.0
    status: str = "200 OK"
    chunked: bool = True
    requests: list[bytes] = field(default_factory=list)  # filled by the server


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[Endpoint]:
    connections: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            await answer(reader, writer)
        except ConnectionError:
            pass  # the client has heard enough
        finally:
            writer.close()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(h.split(b":")[1]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length")), 0
        )
        script.requests.append(head + await reader.readexactly(length))
        encoding = "Transfer-Encoding: chunked\r\n" if script.chunked else ""
        writer.write(f"HTTP/1.1 {script.status}\r\n{encoding}Connection: close\r\n\r\n".encode())
        for data in script.writes:
            writer.write(b"%x\r\n%s\r\n" % (len(data), data) if script.chunked else data)
            await writer.drain()
            await asyncio.sleep(script.pause_s)
        if script.chunked:
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield Endpoint("127.0.0.1", server.sockets[0].getsockname()[1])
    await asyncio.gather(*connections)
