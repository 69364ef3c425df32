"""The Host check."""

import pytest
from starlette.types import Message
from tests.api.fronts import Front, make_front

from stoker.api import ApiSettings
from stoker.api.guards.hosts import hostname

PATH = "/v1/chat/completions"
ASK = {"messages": [{"role": "user", "content": "hi"}]}


async def status(front: Front, host: str) -> int:
    response = await front.get("/v1", headers={"host": host})
    if response.status_code == 403:
        assert response.json()["error"]["type"] == "permission_error"
        assert "--allowed-hosts" in response.json()["error"]["message"]
    return response.status_code


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8080",
        "127.0.0.1",
        "127.0.0.1:9",
        "[::1]",
        "[::1]:8080",
        "LOCALHOST:80",
        "localhost.",
    ],
)
async def test_loopback_names_pass(front: Front, host: str) -> None:
    assert await status(front, host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "192.168.1.5:8080",
        "0.0.0.0:8080",
        "",
        ":8080",
        "[::1",
        "[::1]evil",
        "localhost:80:80",
        "localhost:x",
        "localhost evil",
    ],
)
async def test_other_names_do_not(front: Front, host: str) -> None:
    assert await status(front, host) == 403


async def test_rebinding_is_refused_on_every_route(front: Front) -> None:
    evil = {"host": "evil.example"}
    assert (await front.post(PATH, ASK, headers=evil)).status_code == 403
    assert (await front.get("/health", headers=evil)).status_code == 403
    assert not front.engine.requests


async def test_two_host_headers(front: Front) -> None:
    async with front.client() as client:
        headers = [("host", "localhost"), ("host", "evil.example")]
        assert (await client.get("/v1", headers=headers)).status_code == 400


async def test_names_the_operator_allows() -> None:
    front = make_front(settings=ApiSettings(allowed_hosts=("AI.example", "[fd00::1]")))
    assert await status(front, "ai.example:8080") == 200
    assert await status(front, "[fd00::1]:8080") == 200
    assert await status(front, "other.example") == 403
    assert await status(make_front(settings=ApiSettings(allowed_hosts=("*",))), "any.example") == 200


async def test_on_an_open_address_without_a_key() -> None:
    front = make_front(settings=ApiSettings(host="0.0.0.0"))
    for host in ("192.168.1.5:8080", "[fd00::1]", "stoker:8080", "box.local", "localhost"):
        assert await status(front, host) == 200
    for host in ("evil.example", "192.168.1.5.evil.example"):
        assert await status(front, host) == 403


async def test_on_an_open_address_with_a_key_any_name_goes() -> None:
    front = make_front(settings=ApiSettings(host="0.0.0.0", api_key="k"))
    response = await front.get("/v1", headers={"host": "ai.example", "authorization": "Bearer k"})
    assert response.status_code == 200


def test_hostname() -> None:
    assert hostname("A.b:80") == "a.b"
    assert hostname("[::1]:80") == "::1"
    assert hostname("a:") == "a"
    for malformed in ("", ":80", "[::1", "a:b", "a:80:80", "a b", "u@a", "a/b"):
        assert hostname(malformed) is None


async def test_http_1_1_needs_the_header(front: Front) -> None:
    for version, status in (("1.1", 400), ("1.0", 200)):
        sent: list[Message] = []

        async def send(message: Message, sent: list[Message] = sent) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.request"}

        scope = {"type": "http", "http_version": version, "method": "GET", "path": "/health", "headers": []}
        await front.app({**scope, "raw_path": b"/health", "query_string": b""}, receive, send)
        assert sent[0]["status"] == status
