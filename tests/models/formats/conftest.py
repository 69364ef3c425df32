"""Real weights for the tests marked `real_weights`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def _path(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set")
    return Path(value)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    return _path("STOKER_TEST_SMOLLM2")


@pytest.fixture(scope="session")
def gemma3_path() -> Path:
    return _path("STOKER_TEST_GEMMA3")
