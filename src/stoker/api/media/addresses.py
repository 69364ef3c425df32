"""Which addresses a request may make this server connect to: only public ones.

URLs come from whoever wrote the prompt, so an address of this machine or its network must not be
reachable through them.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], list[str]]

_REFUSED_V4 = [
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "224.0.0.0/3",  # multicast, reserved, broadcast
    )
]
_REFUSED_V6 = [
    ipaddress.IPv6Network(text) for text in ("::/128", "::1/128", "fe80::/10", "fc00::/7", "ff00::/8")
]
# The last four bytes of these are an IPv4 address: mapped, compatible, NAT64 (both prefixes).
_CARRIES_V4 = [
    ipaddress.IPv6Network(text) for text in ("::ffff:0:0/96", "::/96", "64:ff9b::/96", "64:ff9b:1::/48")
]
_SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")


def is_refused(text: str) -> bool:
    """Whether the address in `text` is not a public one (or not an address)."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return True
    if isinstance(address, ipaddress.IPv4Address):
        return any(address in network for network in _REFUSED_V4)
    if any(address in network for network in _REFUSED_V6):
        return True
    inner = _inner_v4(address)
    return inner is not None and is_refused(str(inner))


def is_refused_literal(host: str) -> bool:
    """Whether `host` is itself an address, and a refused one. Names are judged when they are looked up."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return is_refused(host)


def _inner_v4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if any(address in network for network in _CARRIES_V4):
        return ipaddress.IPv4Address(address.packed[-4:])
    if address in _SIX_TO_FOUR:
        return ipaddress.IPv4Address(address.packed[2:6])
    return None


def is_local_name(host: str) -> bool:
    name = host.rstrip(".").lower()
    return name == "localhost" or name.endswith(".localhost")


def resolve_host(host: str, port: int) -> list[str]:
    """Every address of `host`. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
