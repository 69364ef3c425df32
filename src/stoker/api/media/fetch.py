"""Remote media: one GET with few redirects, every hop checked, size and time limited.

Each hop's name is looked up once; the connection goes to an address that was checked, while Host and
TLS keep the name. So a name that answers differently the second time gains nothing.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import httpx

from stoker.api.media.addresses import (
    Resolve,
    is_local_name,
    is_refused,
    is_refused_literal,
    resolve_host,
)
from stoker.errors import InvalidRequest

MIB = 1024 * 1024
MAX_BYTES = {"image": 64 * MIB, "audio": 64 * MIB, "video": 256 * MIB}
MAX_REDIRECTS = 5
TIMEOUT_S = 10.0  # the whole fetch, all hops


@dataclass(frozen=True)
class MediaFetcher:
    """One policy; `fetch` may run many times at once."""

    allow_private: bool = False  # lifts the rule on addresses, nothing else
    timeout_s: float = TIMEOUT_S
    max_bytes: dict[str, int] = field(default_factory=lambda: dict(MAX_BYTES))
    resolve: Resolve = resolve_host

    async def fetch(self, url: str, kind: str) -> bytes:
        """The body of `url`, whose part is an image, audio or video. Raises InvalidRequest."""
        try:
            # No proxy of the environment: it would look the name up itself.
            async with (
                asyncio.timeout(self.timeout_s),
                httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=self.timeout_s) as client,
            ):
                return await self._follow(client, url, kind)
        except (TimeoutError, httpx.TimeoutException):
            raise _failed(kind, "it took too long") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise _failed(kind, f"the transfer failed ({type(error).__name__})") from None

    def check(self, url: str, kind: str) -> httpx.URL:
        """`url` as far as it can be judged without the network: its form, and an address or a local name
        in it. Raises InvalidRequest."""
        target = self._check(url, kind)
        if not self.allow_private and (is_local_name(target.host) or is_refused_literal(target.host)):
            raise _rejected(kind, "private addresses are not allowed")
        return target

    async def _follow(self, client: httpx.AsyncClient, url: str, kind: str) -> bytes:
        for _ in range(MAX_REDIRECTS + 1):
            target = self._check(url, kind)
            request = client.build_request(
                "GET",
                target.copy_with(host=await self._choose_address(target, kind)),
                headers={"host": target.netloc.decode("ascii"), "accept-encoding": "identity"},
                extensions={"sni_hostname": target.raw_host.decode("ascii")},
            )
            response = await client.send(request, stream=True)
            try:
                if not response.is_redirect:
                    return await self._read(response, kind)
                url = str(target.join(response.headers.get("location", "")))
            finally:
                await response.aclose()
        raise _rejected(kind, f"more than {MAX_REDIRECTS} redirects")

    def _check(self, url: str, kind: str) -> httpx.URL:
        try:
            target = httpx.URL(url)
        except (httpx.InvalidURL, ValueError, TypeError):
            raise _rejected(kind, "it is not a url") from None
        if target.scheme not in ("http", "https"):
            raise _rejected(kind, "only http and https are allowed")
        if not target.host:
            raise _rejected(kind, "it has no host")
        if target.userinfo:
            raise _rejected(kind, "it must not carry a user name")
        return target

    async def _choose_address(self, target: httpx.URL, kind: str) -> str:
        if is_local_name(target.host) and not self.allow_private:
            raise _rejected(kind, "private addresses are not allowed")
        port = target.port or (443 if target.scheme == "https" else 80)
        try:
            addresses = await asyncio.to_thread(self.resolve, target.host, port)
        except (OSError, UnicodeError):
            addresses = []
        if not addresses:
            raise _failed(kind, "the host name has no address")
        if not self.allow_private and any(is_refused(address) for address in addresses):
            raise _rejected(kind, "private addresses are not allowed")
        return addresses[0]

    async def _read(self, response: httpx.Response, kind: str) -> bytes:
        if response.status_code != 200:
            raise _failed(kind, f"the server answered {response.status_code}")
        limit = self.max_bytes[kind]
        announced = response.headers.get("content-length", "")
        body = bytearray()
        if announced.isdigit() and int(announced) > limit:
            raise _failed(kind, f"it is larger than {limit} bytes")
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > limit:
                raise _failed(kind, f"it is larger than {limit} bytes")
        return bytes(body)


def _rejected(kind: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"prompt build failed: {kind} url rejected: {reason}", param="messages")


def _failed(kind: str, reason: str) -> InvalidRequest:
    return InvalidRequest(f"prompt build failed: {kind} could not be fetched: {reason}", param="messages")
