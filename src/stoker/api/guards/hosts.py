"""The Host check, against DNS rebinding: a web page whose name suddenly resolves to this machine
must not reach the server under that name.
"""

from __future__ import annotations

import ipaddress
import re
import socket

from starlette.types import ASGIApp, Receive, Scope, Send

from stoker.api.guards.refuse import refuse
from stoker.api.state import ApiSettings
from stoker.errors import Forbidden, InvalidRequest

_HOST = re.compile(r"(?:\[(?P<bracketed>[0-9a-f:.]+)\]|(?P<name>[^\[\]:@/\s]+))(?::[0-9]*)?", re.ASCII)

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class HostGuard:
    """On a loopback address: loopback names, the address itself and the names allowed.

    On another address other machines are meant to call, by whatever name they know this one. With
    an API key any name is fine, as a rebound page does not have the key. Without one: IP addresses,
    names without a dot (no public DNS has them), *.local, this machine's own names, and the names
    allowed. "*" among the allowed names switches the check off.
    """

    def __init__(self, app: ASGIApp, settings: ApiSettings) -> None:
        self._app = app
        allowed = {name.lower().strip("[]") for name in settings.allowed_hosts}
        self._names = frozenset(LOOPBACK_NAMES | allowed | {settings.host.lower().strip("[]")})
        self._loopback = is_loopback(settings.host)
        self._open = "*" in allowed or (not self._loopback and settings.api_key is not None)
        if not self._loopback:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and not self._open:
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            if len(hosts) > 1:
                await refuse(scope, receive, send, InvalidRequest("more than one Host header"))
                return
            if not hosts and scope["type"] == "http" and scope.get("http_version", "1.1") == "1.1":
                await refuse(scope, receive, send, InvalidRequest("HTTP/1.1 needs a Host header"))
                return
            if hosts and not self._allows(hostname(hosts[0].decode("latin-1"))):
                message = (
                    "this Host is not allowed; the server's --allowed-hosts setting names those that are"
                )
                await refuse(scope, receive, send, Forbidden(message))
                return
        await self._app(scope, receive, send)

    def _allows(self, name: str | None) -> bool:
        if name is None:
            return False
        if name in self._names:
            return True
        if self._loopback:
            return False
        return _is_address(name) or "." not in name or name.endswith(".local")


def hostname(host: str) -> str | None:
    """The name in a Host header, lower case, without port and brackets; None when malformed."""
    match = _HOST.fullmatch(host.lower())
    return match["bracketed"] or match["name"].removesuffix(".") if match else None


def is_loopback(name: str) -> bool:
    name = name.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
