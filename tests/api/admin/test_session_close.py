"""The route that forgets a session label."""

from __future__ import annotations

import pytest
from tests.api.fronts import make_front

PATH = "/admin/cache/session/close"


async def test_a_label_reaches_the_engine():
    front = make_front()
    assert (await front.post(PATH, {"session_id": "agent-42"})).json() == {"closed": True}
    assert front.engine.closed_sessions == ["agent-42"]


@pytest.mark.parametrize("body", [b"", b" \n", b"{}", b'{"session_id":""}', b'{"session_id":null}'])
async def test_no_label_closes_nothing(body: bytes):
    front = make_front()
    async with front.client() as client:
        response = await client.post(PATH, content=body)
    assert (response.status_code, response.json()) == (200, {"closed": False})
    assert front.engine.closed_sessions == []


@pytest.mark.parametrize(
    ("body", "message"),
    [(b"[1", "invalid JSON body"), (b'{"session_id":7}', "session_id must be of type str")],
)
async def test_a_wrong_body_is_refused(body: bytes, message: str):
    front = make_front()
    async with front.client() as client:
        response = await client.post(PATH, content=body)
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]
    assert front.engine.closed_sessions == []
