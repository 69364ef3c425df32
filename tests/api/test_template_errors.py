"""Fault B16: a template that refuses, one with a bug, and a model without one, on every route of its kind."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.fronts import make_front
from tests.fakes import byte_text_model

MESSAGES = [{"role": "user", "content": "hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 5},
    "/v1/responses": {"input": "hi"},
}


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[0].nothing.at_all }}", "prompt build failed"),
        (None, "no chat template"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", BODIES)
async def test_each_is_told_in_the_routes_own_shape(
    path: str, stream: bool, template: str | None, words: str
) -> None:
    front = make_front(text=byte_text_model(template=template))
    response = await front.post(path, {**BODIES[path], "stream": stream})
    assert response.status_code == 400
    assert "Traceback" not in response.text
    body = response.json()
    assert words in body["error"]["message"]
    if path == "/v1/messages":
        assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    assert not front.engine.requests
    assert (await front.post("/v1/completions", {"prompt": "hi"})).status_code == 200
