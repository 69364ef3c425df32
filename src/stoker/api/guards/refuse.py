"""Answering in place of the routes, in the shape of the protocol that was addressed."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import Receive, Scope, Send

from stoker.api.errors import error_response
from stoker.errors import StokerError


async def refuse(
    scope: Scope, receive: Receive, send: Send, error: StokerError, headers: Mapping[str, str] | None = None
) -> None:
    if scope["type"] == "websocket":  # before the handshake this becomes a plain 403
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": error.message[:120]})
        return
    await error_response(scope["path"], error, headers)(scope, receive, send)
