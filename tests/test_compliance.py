"""Every check of llm-comply but image input passes on the real program and real weights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real_server import Server, real_server
from tools.comply import FORMATS, TEXT_ONLY, failures, run_checks

pytestmark = pytest.mark.real_weights
OF_REASONERS = {"chat-reasoning-summary", "reasoning-summary", "anth-thinking-display"}


@pytest.fixture(scope="module")
def server(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # Greedy: whether the model comes to an end of itself must not be a matter of luck.
    flags = ("--temperature", "0", "--require-model")
    with real_server(smollm2_path, tmp_path_factory.mktemp("config"), *flags) as server:
        yield server


@pytest.mark.parametrize("format", FORMATS)
def test_compliance(server: Server, format: str) -> None:
    results = run_checks(server.url, format)
    assert len(results) >= 9
    assert failures(results) == {}
    # Skipped is what the checker itself asks only of models with certain names.
    for result in results:
        assert result["status"] == "passed" or result["id"] in TEXT_ONLY | OF_REASONERS, result["id"]
