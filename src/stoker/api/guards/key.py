"""The API key: `Authorization: Bearer KEY` or `x-api-key: KEY`, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from stoker.api.guards.refuse import refuse
from stoker.errors import Unauthorized

# The documentation is the same on every server and holds nothing of this one.
_OPEN_PATHS = ("/health", "/docs", "/openapi.json")


class KeyGuard:
    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._digest = _digest(key.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in _OPEN_PATHS or self._has_key(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        error = Unauthorized(
            "missing or wrong API key: send it as `Authorization: Bearer KEY` or `x-api-key`"
        )
        await refuse(scope, receive, send, error, {"www-authenticate": "Bearer"})

    def _has_key(self, headers: Headers) -> bool:
        candidates = headers.getlist("x-api-key")
        for value in headers.getlist("authorization"):
            scheme, _, credentials = value.partition(" ")
            if scheme.lower() == "bearer":
                candidates.append(credentials.strip())
        return any(
            hmac.compare_digest(_digest(value.encode("latin-1")), self._digest) for value in candidates
        )


def _digest(key: bytes) -> bytes:
    """Of equal length for every key, so that comparing takes the same time for every guess."""
    return hashlib.sha256(key).digest()
