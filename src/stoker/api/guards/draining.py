"""While the server shuts down, new requests are sent away."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from stoker.api.drain import Drain
from stoker.api.guards.refuse import refuse
from stoker.errors import Unavailable


class DrainGuard:
    def __init__(self, app: ASGIApp, drain: Drain) -> None:
        self._app = app
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or not self._drain.begun:
            await self._app(scope, receive, send)
            return
        headers = {"connection": "close", "retry-after": "5"}
        await refuse(scope, receive, send, Unavailable("the server is shutting down"), headers)
