"""Every check of llm-comply on the real program and real weights, but for those tools/comply.py excepts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real_server import Server, real_server
from tools.comply import FORMATS, failures, run_checks

pytestmark = pytest.mark.real_weights


@pytest.fixture(scope="module")
def server(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # Greedy: whether the model comes to an end of itself must not be a matter of luck.
    with real_server(smollm2_path, tmp_path_factory.mktemp("config"), "--temperature", "0") as server:
        yield server


@pytest.mark.parametrize("format", FORMATS)
def test_compliance(server: Server, format: str) -> None:
    results = run_checks(server.url, format)
    assert len(results) >= 9
    assert failures(results) == {}
