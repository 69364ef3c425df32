"""The API key."""

import pytest
from tests.api.fronts import Front, make_front

from stoker.api import ApiSettings

KEY = "sekret-ключ"


@pytest.fixture
def locked() -> Front:
    return make_front(settings=ApiSettings(api_key=KEY))


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}".encode()},
        {"authorization": f"bearer  {KEY}".encode()},
        {"x-api-key": KEY.encode()},
        {"x-api-key": KEY.encode(), "authorization": b"Bearer wrong"},
    ],
)
async def test_the_key_opens(locked: Front, headers: dict[str, bytes]) -> None:
    assert (await locked.get("/v1/models", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": b""},
        {"authorization": b"Bearer"},
        {"authorization": b"Bearer "},
        {"authorization": b"Basic " + KEY.encode()},
        {"authorization": KEY.encode()},
        {"x-api-key": b"sekret"},
        {"x-api-key": KEY.encode() + b"x"},
        {"x-api-key": b"\xff\xfe"},
    ],
)
async def test_anything_else_does_not(locked: Front, headers: dict[str, bytes]) -> None:
    for path in ("/v1/models", "/stats", "/metrics", "/nowhere"):
        response = await locked.get(path, headers=headers)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        error = response.json()["error"]
        assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")


async def test_each_protocol_refuses_in_its_own_shape(locked: Front) -> None:
    messages = (await locked.post("/v1/messages", {})).json()
    assert (messages["type"], messages["error"]["type"]) == ("error", "invalid_request_error")
    assert set((await locked.post("/v1/responses", {})).json()["error"]) == {
        "message",
        "type",
        "param",
        "code",
    }
    assert (await locked.get("/api/jobs")).json()["ok"] is False


@pytest.mark.parametrize("path", ["/health", "/docs", "/openapi.json"])
async def test_what_holds_nothing_stays_open(locked: Front, path: str) -> None:
    assert (await locked.get(path)).status_code == 200


async def test_without_a_key_any_credentials_are_ignored(front: Front) -> None:
    response = await front.get("/v1/models", headers={"authorization": "Bearer anything"})
    assert response.status_code == 200
