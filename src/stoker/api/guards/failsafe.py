"""The last net: an exception nobody expected becomes a 500 in the protocol's shape, with its trace
in the log only.
"""

from __future__ import annotations

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stoker.api.guards.refuse import refuse
from stoker.errors import StokerError

log = logging.getLogger(__name__)


class Failsafe:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except StokerError as error:
            if started:
                raise
            await refuse(scope, receive, send, error)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if started:
                raise  # the server closes the connection, so the client sees that the answer is cut
            await refuse(
                scope, receive, send, StokerError("internal error; the server's log has the details")
            )
