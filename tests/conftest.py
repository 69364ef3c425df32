"""Real weights for the tests marked `real_weights`, and how hypothesis draws its examples.

`make test` fetches and names the starter models.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# What judges a change draws the same examples each time, and does not judge the machine: no deadline.
# `--hypothesis-profile=default` looks for new ones.
settings.register_profile("same-examples", derandomize=True, database=None, deadline=None)
settings.load_profile("same-examples")


def _path(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} does not name a model file")
    return Path(value)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """SmolLM2-135M-Instruct, Q4_1 GGUF."""
    return _path("STOKER_TEST_SMOLLM2")


@pytest.fixture(scope="session")
def gemma3_path() -> Path:
    """Gemma 3 270M, Q4_K_M GGUF; under terms to accept, so `make test` does not fetch it."""
    return _path("STOKER_TEST_GEMMA3")


@pytest.fixture(scope="session")
def minilm_path() -> Path:
    """The folder of all-MiniLM-L6-v2."""
    return _path("STOKER_TEST_MINILM")
