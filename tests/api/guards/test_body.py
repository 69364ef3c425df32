"""Limits on size and time of a body."""

import asyncio
from collections.abc import AsyncIterator

from tests.api.fronts import Front, make_front

from stoker.api import ApiSettings

PATH = "/v1/chat/completions"
ASK = b'{"messages": [{"role": "user", "content": "hi"}]}'


def limited(max_bytes: int = 1000, timeout_s: float = 10.0) -> Front:
    return make_front(settings=ApiSettings(max_body_bytes=max_bytes, body_timeout_s=timeout_s))


async def test_an_announced_size_over_the_limit_is_refused_unread() -> None:
    front = limited()
    read = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal read
        read += 1
        yield b"x" * 1001

    async with front.client() as client:
        response = await client.post(PATH, content=body(), headers={"content-length": "1001"})
    assert response.status_code == 413
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert "1000" in response.json()["error"]["message"]
    assert response.headers["connection"] == "close"


async def test_a_chunked_body_over_the_limit_is_cut() -> None:
    front = limited()
    pieces = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal pieces
        for _ in range(1000):
            pieces += 1
            yield b"x" * 100

    async with front.client() as client:
        response = await client.post(PATH, content=body())
    assert response.status_code == 413
    assert pieces <= 12


async def test_a_body_at_the_limit_passes() -> None:
    padded = ASK + b" " * (1000 - len(ASK))
    async with limited().client() as client:
        assert (await client.post(PATH, content=padded)).status_code == 200
        assert (await client.post(PATH, content=padded + b" ")).status_code == 413


async def test_a_malformed_length() -> None:
    async with limited().client() as client:
        for length in ("-1", "abc", "1e3", "+5", ""):
            response = await client.post(PATH, content=ASK, headers={"content-length": length})
            assert response.status_code == 400


async def test_a_slow_body_times_out() -> None:
    front = limited(timeout_s=0.1)

    async def body() -> AsyncIterator[bytes]:
        for byte in ASK:
            await asyncio.sleep(0.02)
            yield bytes([byte])

    async with front.client() as client:
        response = await client.post(PATH, content=body())
    assert response.status_code == 408
    assert "0.1 s" in response.json()["error"]["message"]
    assert not front.engine.requests


async def test_the_time_limit_is_the_bodys_not_the_answers() -> None:
    front = limited(timeout_s=0.05)
    front.engine.step_s = 0.01
    async with front.client() as client:
        assert (await client.post(PATH, content=ASK)).status_code == 200
