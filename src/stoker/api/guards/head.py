"""HEAD: what GET would answer, without its body.

The innermost guard, so that the others still see which method was asked for.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# What the routes note in the scope for the guards around this one.
_NOTES = ("route", "stoker.status")


class HeadGuard:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        asked = {**scope, "method": "GET"}
        try:
            await self._app(asked, receive, _without_body(send))
        finally:
            scope.update({name: asked[name] for name in _NOTES if name in asked})


def _without_body(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return send_head
