"""Limits on a request body: its size, announced or not, and the time it takes to arrive."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stoker.api.errors import RequestTimeout
from stoker.api.guards.refuse import refuse
from stoker.errors import InvalidRequest, PayloadTooLarge


class BodyGuard:
    """`timeout_s` runs from the first wait for the body to its last byte."""

    def __init__(self, app: ASGIApp, *, max_bytes: int, timeout_s: float) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not length.isdigit():
            await refuse(scope, receive, send, InvalidRequest("invalid Content-Length"))
        elif int(length) > self._max_bytes:
            # The rest of the body is still on its way; the connection is of no further use.
            await refuse(scope, receive, send, self._too_large(), {"connection": "close"})
        else:
            await self._app(scope, self._limited(receive), send)

    def _limited(self, receive: Receive) -> Receive:
        loop = asyncio.get_running_loop()
        num_bytes = 0
        deadline: float | None = None
        complete = False

        async def receive_limited() -> Message:
            nonlocal num_bytes, deadline, complete
            if complete:
                return await receive()
            deadline = deadline or loop.time() + self._timeout_s
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise RequestTimeout(f"the body took longer than {self._timeout_s:g} s to arrive") from None
            num_bytes += len(message.get("body", b""))
            if num_bytes > self._max_bytes:
                raise self._too_large()
            complete = not message.get("more_body", False)
            return message

        return receive_limited

    def _too_large(self) -> PayloadTooLarge:
        return PayloadTooLarge(f"the request body is larger than {self._max_bytes} bytes")
