"""The Origin check and CORS: which web pages may call the server from a browser.

Pages served from this machine's loopback names, from the same host, and the origins allowed.
Requests without an Origin (every client that is no browser) pass.
"""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stoker.api.guards.hosts import is_loopback
from stoker.api.guards.refuse import refuse
from stoker.errors import Forbidden

# As browsers write one, in lower case: a scheme, a name and perhaps a port, nothing else.
_ORIGIN = re.compile(
    r"https?://(?P<host>(?:\[(?P<bracketed>[0-9a-f:.]+)\]|(?P<name>[^\s\[\]:@/?#\\,]+))(?::(?P<port>[0-9]{1,5}))?)",
    re.ASCII,
)
_SAFE_METHODS = ("GET", "HEAD")
_METHODS = "GET, POST, DELETE, OPTIONS"
_EXPOSED = "Warning, Retry-After, x-mlx-bun-language, x-mlx-bun-timings"
_SECURITY_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


class OriginGuard:
    """Refuses cross-site calls that could change something; a page that may not call cannot read
    the answer of one that only reads, as it lacks the CORS headers."""

    def __init__(self, app: ASGIApp, allowed_origins: tuple[str, ...]) -> None:
        self._app = app
        self._allowed = frozenset(origin.lower().rstrip("/") for origin in allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        allowed = origin is not None and self._allows(origin, headers.get("host", ""))
        changes = scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS
        if origin is not None and not allowed and changes:
            message = (
                "this Origin is not allowed; the server's --allowed-origins setting names those that are"
            )
            await refuse(scope, receive, send, Forbidden(message))
            return
        send = _with_headers(send, origin if allowed else None)
        if scope["type"] == "http" and scope["method"] == "OPTIONS" and allowed:
            await _preflight(headers)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _allows(self, origin: str, host: str) -> bool:
        origin = origin.lower()
        if "*" in self._allowed or origin in self._allowed:
            return True
        match = _ORIGIN.fullmatch(origin)
        if match is None or int(match["port"] or 0) > 65535:  # "null", file:, extensions, nonsense
            return False
        return is_loopback(match["bracketed"] or match["name"]) or match["host"] == host.lower()


def _preflight(headers: Headers) -> Response:
    answer = {
        "access-control-allow-methods": _METHODS,
        "access-control-allow-headers": headers.get("access-control-request-headers", "*"),
        "access-control-max-age": "600",
    }
    if headers.get("access-control-request-private-network") == "true":
        answer["access-control-allow-private-network"] = "true"
    return Response(status_code=204, headers=answer)


def _with_headers(send: Send, origin: str | None) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            headers.update(_SECURITY_HEADERS)
            headers.add_vary_header("Origin")
            if origin is not None:
                headers["access-control-allow-origin"] = origin
                headers["access-control-expose-headers"] = _EXPOSED
        await send(message)

    return send_with_headers
