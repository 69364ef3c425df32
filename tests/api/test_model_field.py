"""`model`: any name or none is fine, unless the operator requires one; then its absence is a 400 of each
protocol, before anything is submitted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.fronts import Front, make_front
from tests.embed.services import tiny_service

from stoker.api import ApiSettings
from stoker.embed.service import EmbedService

HI = [{"role": "user", "content": "hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": HI, "max_tokens": 5},
    "/v1/completions": {"prompt": "hi", "max_tokens": 5},
    "/v1/responses": {"input": "hi", "max_output_tokens": 5},
    "/v1/messages": {"messages": HI, "max_tokens": 5},
    "/v1/messages/count_tokens": {"messages": HI},
    "/v1/embeddings": {"input": "w70"},
}
MISSING: list[dict[str, Any]] = [{}, {"model": None}, {"model": ""}]


@pytest.fixture(scope="module")
def embed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbedService]:
    service = tiny_service(tmp_path_factory.mktemp("models"))
    yield service
    service.close()


@pytest.fixture(scope="module")
def strict(embed: EmbedService) -> Front:
    return make_front(embed=embed, settings=ApiSettings(require_model=True))


@pytest.mark.parametrize("path", BODIES)
async def test_required(strict: Front, path: str) -> None:
    before = len(strict.engine.requests)
    for missing in MISSING:
        answer = await strict.post(path, BODIES[path] | missing)
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert (error["message"], error["type"]) == ("model is required", "invalid_request_error")
        if path.startswith("/v1/messages"):
            assert answer.json()["type"] == "error"  # its shape has no param
        else:
            assert error["param"] == "model"
    assert len(strict.engine.requests) == before
    assert (await strict.post(path, BODIES[path] | {"model": "any"})).status_code == 200


@pytest.mark.parametrize("path", BODIES)
async def test_not_required(embed: EmbedService, path: str) -> None:
    front = make_front(embed=embed)
    for missing in MISSING:
        assert (await front.post(path, BODIES[path] | missing)).status_code == 200
    assert (await front.post(path, BODIES[path] | {"model": 1})).status_code == 400


def test_the_setting(tmp_path: Path) -> None:
    from stoker.config.resolve import resolve

    missing = tmp_path / "config.toml"
    missing.write_text("")
    assert not ApiSettings.from_settings(resolve(environ={}, config_file=missing)).require_model
    settings = resolve(environ={"STOKER_REQUIRE_MODEL": "1"}, config_file=missing)
    assert ApiSettings.from_settings(settings).require_model
