"""What stands between a socket and the routes: one small ASGI layer per danger.

telemetry > failsafe > hosts > origins > draining > key > body > head > routes
"""

from __future__ import annotations

from typing import Protocol

from starlette.types import ASGIApp

from stoker.api.drain import Drain
from stoker.api.guards.body import BodyGuard
from stoker.api.guards.draining import DrainGuard
from stoker.api.guards.failsafe import Failsafe
from stoker.api.guards.head import HeadGuard
from stoker.api.guards.hosts import HostGuard
from stoker.api.guards.key import KeyGuard
from stoker.api.guards.origins import OriginGuard
from stoker.api.guards.telemetry import Telemetry
from stoker.api.metrics import Metrics
from stoker.api.state import ApiSettings


class Guarded(Protocol):
    """The part of a server's state that the guards see."""

    @property
    def settings(self) -> ApiSettings: ...
    @property
    def metrics(self) -> Metrics: ...
    @property
    def drain(self) -> Drain: ...


def guarded(app: ASGIApp, state: Guarded) -> ASGIApp:
    """`app` behind every guard."""
    settings = state.settings
    app = BodyGuard(
        HeadGuard(app),
        max_bytes=settings.max_body_bytes,
        max_audio_bytes=settings.max_audio_body_bytes,
        timeout_s=settings.body_timeout_s,
    )
    if settings.api_key:
        app = KeyGuard(app, settings.api_key)
    app = DrainGuard(app, state.drain)
    app = OriginGuard(app, settings.allowed_origins)
    app = HostGuard(app, settings)
    app = Failsafe(app)
    return Telemetry(app, state.metrics, access_log=settings.access_log)
