"""One metric and at most one log line per request.

The status is the one that was sent, or what a stream noted in `scope["stoker.status"]` after its
headers were out (499: the client went away).
"""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stoker.api.metrics import Metrics
from stoker.errors import RequestCancelled

log = logging.getLogger("stoker.access")


class Telemetry:
    """Logs every request, or only failures and lost clients."""

    def __init__(self, app: ASGIApp, metrics: Metrics, *, access_log: bool) -> None:
        self._app = app
        self._metrics = metrics
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.monotonic()
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            self._account(scope, scope.get("stoker.status", status or 500), time.monotonic() - started_at)

    def _account(self, scope: Scope, status: int, duration_s: float) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        method = scope["method"] if route != "unmatched" else "ANY"
        self._metrics.requests.labels(method, route, str(status)).inc()
        if self._access_log or status >= RequestCancelled.status:
            client = scope.get("client")
            log.info(
                '%s "%s %s" %d %.0f ms',
                client[0] if client else "-",
                scope["method"],
                ascii(scope["path"])[1:-1],
                status,
                duration_s * 1000,
            )
