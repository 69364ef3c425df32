"""The Origin check and CORS."""

import pytest
from tests.api.fronts import Front, make_front

from stoker.api import ApiSettings

PATH = "/v1/chat/completions"
ASK = {"messages": [{"role": "user", "content": "hi"}]}
EVIL = {"origin": "https://evil.example"}


async def test_no_origin_is_fine(front: Front) -> None:
    response = await front.post(PATH, ASK)
    assert response.status_code == 200
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost:3000",
        "http://127.0.0.1",
        "https://[::1]:5173",
        "http://app.localhost:1",
        "http://LOCALHOST:65535",
    ],
)
async def test_local_pages_may_call(front: Front, origin: str) -> None:
    response = await front.post(PATH, ASK, headers={"origin": origin})
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == origin
    assert "Origin" in response.headers["vary"]


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://localhost.evil.example",
        "http://evil.example:8080",
        "null",
        "file://",
        "",
        "chrome-extension://abc",
        "http://[",
        "localhost",
        # What no browser writes, and a parser of URLs might forgive.
        "http://localhost:abc",
        "http://localhost:",
        "http://localhost:99999",
        "http://localhost/",
        "http://localhost?x",
        "http://localhost#x",
        "http://user:word@localhost",
        "http://127.0.0.1:80 http://evil.example",
        "http://localhost\\.evil.example",
        "http://localhost, http://evil.example",
        "http://[::1",
        "http://::1",
    ],
)
async def test_other_pages_may_not_post(front: Front, origin: str) -> None:
    # text/plain: what a page can send without a preflight
    response = await front.post(PATH, ASK, headers={"origin": origin, "content-type": "text/plain"})
    assert response.status_code == 403
    assert response.json()["error"]["type"] == "permission_error"
    assert "access-control-allow-origin" not in response.headers
    assert not front.engine.requests


async def test_other_pages_cannot_read(front: Front) -> None:
    response = await front.get("/v1/models", headers=EVIL)
    assert "access-control-allow-origin" not in response.headers
    assert response.headers["cross-origin-resource-policy"] == "same-origin"


async def test_the_same_host_may_call() -> None:
    front = make_front(settings=ApiSettings(host="0.0.0.0"))
    headers = {"host": "box.local:8080", "origin": "http://box.local:8080"}
    assert (await front.post(PATH, ASK, headers=headers)).status_code == 200
    headers["origin"] = "http://box.local:9090"
    assert (await front.post(PATH, ASK, headers=headers)).status_code == 403


async def test_origins_the_operator_allows() -> None:
    front = make_front(settings=ApiSettings(allowed_origins=("https://App.example/",)))
    headers = {"origin": "https://app.example"}
    assert (await front.post(PATH, ASK, headers=headers)).status_code == 200
    assert (await front.post(PATH, ASK, headers=EVIL)).status_code == 403
    anywhere = make_front(settings=ApiSettings(allowed_origins=("*",)))
    assert (await anywhere.post(PATH, ASK, headers=EVIL)).status_code == 200


async def test_preflight() -> None:
    front = make_front(settings=ApiSettings(api_key="k"))  # a preflight carries no key
    asked = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
        "access-control-request-private-network": "true",
    }
    async with front.client() as client:
        response = await client.options(PATH, headers={"origin": "http://localhost:3000", **asked})
        assert response.status_code == 204
        assert response.headers["access-control-allow-origin"] == "http://localhost:3000"
        assert "POST" in response.headers["access-control-allow-methods"]
        assert response.headers["access-control-allow-headers"] == "authorization,content-type"
        assert response.headers["access-control-allow-private-network"] == "true"
        refused = await client.options(PATH, headers={**EVIL, **asked})
        assert refused.status_code == 403
        assert "access-control-allow-origin" not in refused.headers


async def test_security_headers(front: Front) -> None:
    for response in (await front.get("/health"), await front.post(PATH, {**ASK, "stream": True})):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        assert response.headers["referrer-policy"] == "no-referrer"
