"""The media fetcher against a local server and scripted name look-ups: where it may connect, and how much
and how long it reads."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from stoker.api.media.addresses import is_local_name, is_refused
from stoker.api.media.data_url import decode_data_url
from stoker.api.media.fetch import MediaFetcher
from stoker.errors import InvalidRequest


class Handler(BaseHTTPRequestHandler):
    hosts: list[str] = []  # noqa: RUF012 - of the class on purpose: handlers are made per request

    def do_GET(self) -> None:
        self.hosts.append(self.headers["host"])
        path, _, argument = self.path.partition("?")
        if path == "/redirect":
            self.send_response(302)
            self.send_header("location", argument)
            self.end_headers()
        elif path == "/loop":
            self.send_response(307)
            self.send_header("location", "/loop")
            self.end_headers()
        elif path == "/large":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"x" * 2000)
        elif path == "/announced":
            self.send_response(200)
            self.send_header("content-length", "2000")
            self.end_headers()
        elif path == "/drip":
            self.send_response(200)
            self.end_headers()
            for _ in range(30):
                time.sleep(0.1)
                try:
                    self.wfile.write(b"x")
                except OSError:
                    return
        elif path == "/missing":
            self.send_error(404)
        else:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"picture")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


OPEN = MediaFetcher(allow_private=True, max_bytes={"image": 1000})


async def refusal(url: str, fetcher: MediaFetcher = OPEN) -> str:
    with pytest.raises(InvalidRequest) as caught:
        await fetcher.fetch(url, "image")
    assert caught.value.message.startswith("prompt build failed: image ")
    return caught.value.message


async def test_a_plain_fetch_and_redirects(port: int) -> None:
    base = f"http://127.0.0.1:{port}"
    assert await OPEN.fetch(f"{base}/a.png", "image") == b"picture"
    assert await OPEN.fetch(f"{base}/redirect?/a.png", "image") == b"picture"
    assert await OPEN.fetch(f"{base}/redirect?{base}/a.png", "image") == b"picture"
    assert "more than 5 redirects" in await refusal(f"{base}/loop")


async def test_limits(port: int) -> None:
    base = f"http://127.0.0.1:{port}"
    assert "larger than 1000 bytes" in await refusal(f"{base}/large")
    assert "larger than 1000 bytes" in await refusal(f"{base}/announced")
    assert "answered 404" in await refusal(f"{base}/missing")
    slow = MediaFetcher(allow_private=True, timeout_s=0.3)
    assert "took too long" in await refusal(f"{base}/drip", slow)


async def test_a_name_is_looked_up_once_and_kept_in_the_host_header(port: int) -> None:
    """The connection goes to the address that was checked, whatever a second look-up would say."""
    looked_up: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return ["127.0.0.1"]

    fetcher = MediaFetcher(allow_private=True, resolve=resolve)
    Handler.hosts.clear()
    assert await fetcher.fetch(f"http://pictures.example:{port}/a.png", "image") == b"picture"
    assert looked_up == ["pictures.example"]
    assert Handler.hosts == [f"pictures.example:{port}"]


async def test_private_addresses_are_refused_before_connecting(port: int) -> None:
    Handler.hosts.clear()
    for host in ("127.0.0.1", "localhost", "a.localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433"):
        assert "url rejected: private" in await refusal(f"http://{host}:{port}/", MediaFetcher())
    mixed = MediaFetcher(resolve=lambda host, port: ["93.184.215.14", "10.0.0.1"])
    assert "url rejected: private" in await refusal(f"http://mixed.example:{port}/", mixed)
    assert Handler.hosts == []


async def test_every_hop_is_checked(port: int) -> None:
    """A public name (here: one that the policy takes for public) that redirects inwards."""
    answers = {"public.example": ["127.0.0.1"], "inner.example": ["10.1.2.3"]}
    seen: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        seen.append(host)
        return answers[host]

    class FirstHopOpen(MediaFetcher):
        async def _choose_address(self, target: object, kind: str) -> str:
            if target.host == "public.example":  # type: ignore[attr-defined]
                return resolve("public.example", 0)[0]
            return await super()._choose_address(target, kind)  # type: ignore[arg-type]

    fetcher = FirstHopOpen(resolve=resolve)
    url = f"http://public.example:{port}/redirect?http://inner.example/"
    assert "url rejected: private" in await refusal(url, fetcher)
    assert seen == ["public.example", "inner.example"]
    for location in ("file:///etc/passwd", "gopher://x/"):
        assert "url rejected" in await refusal(f"http://public.example:{port}/redirect?{location}", fetcher)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://a.example/x", "//a.example/x", "http://", "x"])
async def test_schemes_and_hosts(url: str) -> None:
    assert "url rejected" in await refusal(url)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.255.255.255", 
        "169.254.169.254",
        "172.16.0.1", "172.31.255.255", "192.168.1.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "::", "::1", "fe80::1", "fe80::1%eth0", "febf::1", "fc00::1", "fd12::1", "ff02::1",
        "::ffff:10.0.0.1", "::ffff:7f00:1", "64:ff9b::a00:1", "64:ff9b::127.0.0.1", "2002:7f00:1::",
        "nonsense",
    ],
)  # fmt: skip
def test_refused_addresses(address: str) -> None:
    assert is_refused(address)


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "223.255.255.255",
     "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"],
)  # fmt: skip
def test_public_addresses(address: str) -> None:
    assert not is_refused(address)


def test_local_names() -> None:
    assert is_local_name("LOCALHOST.")
    assert is_local_name("a.b.localhost")
    assert not is_local_name("localhost.example")


def test_data_urls() -> None:
    data = bytes(range(256))
    text = base64.b64encode(data).decode()
    assert decode_data_url(f"data:image/png;base64,{text}", "image", 1000) == data
    assert decode_data_url(f"data:;base64,{text.rstrip('=')}", "image", 1000) == data
    assert decode_data_url("data:image/png;base64,", "image", 1000) == b""
    for url, words in [
        ("data:image/png,abc", "must be base64"),
        ("data:image/png;base64", "must be base64"),
        ("data:image/png;base64,####", "not valid base64"),
        (f"data:image/png;base64,{text}", "larger than 100 bytes"),
    ]:
        with pytest.raises(InvalidRequest, match=words):
            decode_data_url(url, "image", 100)
