"""Limits on a request body: its size, announced or not, and the time it takes to arrive."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stoker.api.errors import RequestTimeout
from stoker.api.guards.refuse import refuse
from stoker.errors import InvalidRequest, PayloadTooLarge

_AUDIO_PREFIX = "/v1/audio/"


class BodyGuard:
    """`timeout_s` runs from the first wait for the body to its last byte. Uploads of audio have a limit of
    their own."""

    def __init__(
        self, app: ASGIApp, *, max_bytes: int, timeout_s: float, max_audio_bytes: int | None = None
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._max_audio_bytes = max_bytes if max_audio_bytes is None else max_audio_bytes
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not length.isdigit():
            await refuse(scope, receive, send, InvalidRequest("invalid Content-Length"))
            return
        is_audio = scope["path"].startswith(_AUDIO_PREFIX)
        max_bytes = self._max_audio_bytes if is_audio else self._max_bytes
        if int(length) > max_bytes:
            # The rest of the body is still on its way; the connection is of no further use.
            await refuse(scope, receive, send, _too_large(max_bytes), {"connection": "close"})
        else:
            await self._app(scope, self._limited(receive, max_bytes), send)

    def _limited(self, receive: Receive, max_bytes: int) -> Receive:
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
            if num_bytes > max_bytes:
                raise _too_large(max_bytes)
            complete = not message.get("more_body", False)
            return message

        return receive_limited


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the request body is larger than {max_bytes} bytes")
