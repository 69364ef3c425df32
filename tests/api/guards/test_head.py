"""HEAD on every route that GET has."""

import pytest
from tests.api.fronts import Front, make_front

from stoker.api import ApiSettings

PAGES = ("/health", "/v1", "/v1/models", "/v1/models/tiny/bytes", "/docs", "/openapi.json")


@pytest.mark.parametrize("path", PAGES)
async def test_head_is_get_without_its_body(front: Front, path: str) -> None:
    async with front.client() as client:
        whole, head = await client.get(path), await client.head(path)
    assert head.status_code == whole.status_code == 200
    assert head.content == b""
    for name in ("content-length", "content-type", "x-content-type-options"):
        assert head.headers[name] == whole.headers[name]


@pytest.mark.parametrize("path", ["/nowhere", "/v1/chat/completions", "/v1/responses/unknown"])
async def test_what_get_does_not_find_head_does_not_either(front: Front, path: str) -> None:
    async with front.client() as client:
        head = await client.head(path)
    assert (head.status_code, head.content) == (404, b"")
    assert int(head.headers["content-length"]) > 0


async def test_the_guards_see_head(front: Front) -> None:
    locked = make_front(settings=ApiSettings(api_key="key"))
    async with locked.client() as client:
        assert (await client.head("/v1/models")).status_code == 401
    async with front.client() as client:  # it only reads, so a foreign page's passes, without CORS headers
        head = await client.head("/v1/models", headers={"origin": "https://evil.example"})
        assert head.status_code == 200
        assert "access-control-allow-origin" not in head.headers
        metrics = (await client.get("/metrics")).text
    assert 'stoker_http_requests_total{method="HEAD",route="/v1/models",status="200"} 1.0' in metrics
