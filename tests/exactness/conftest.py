"""The starter model's real weights: read by the reference, and served by stoker in its two modes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exactness.generation import Answer, generate
from tests.exactness.metrics import NUM_POSITIONS
from tests.exactness.reference import Reference

from stoker.app import Served, load_served_model
from stoker.config import Settings

WEIGHTS_VARIABLE = "STOKER_TEST_SMOLLM2"


@pytest.fixture(scope="session")
def weights() -> Path:
    """The SmolLM2-135M-Instruct Q4_1 file."""
    named = os.environ.get(WEIGHTS_VARIABLE)
    if not named:
        pytest.skip(f"{WEIGHTS_VARIABLE} does not name the starter model's GGUF file")
    return Path(named)


@pytest.fixture(scope="session")
def peer(weights: Path) -> dict[str, Any]:
    """What benchmarks/exactness.py measured of llama-server on this very file."""
    content: dict[str, Any] = json.loads((Path(__file__).parent / "peer.json").read_text())
    assert content["model_sha256"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    return content


@pytest.fixture(scope="session")
def reference(weights: Path, peer: dict[str, Any]) -> dict[str, torch.Tensor]:
    """By prompt: log-probabilities [NUM_POSITIONS, vocabulary], row i after i tokens of text."""
    model = Reference(weights)
    found = {}
    for name, prompt in peer["prompts"].items():
        ids = prompt["ids"] + prompt["continuation"][:-1]
        found[name] = torch.log_softmax(model.logits(ids, first=len(prompt["ids"]) - 1), dim=-1)
    return found


def _serve(weights: Path, dtype: str) -> Iterator[Served]:
    served = load_served_model(Settings(model=str(weights), dtype=dtype, context_limit=1024))
    yield served
    served.close()


@pytest.fixture(scope="session")
def served_float32(weights: Path) -> Iterator[Served]:
    yield from _serve(weights, "float32")


@pytest.fixture(scope="session")
def served_by_default(weights: Path) -> Iterator[Served]:
    yield from _serve(weights, "auto")


@pytest.fixture(scope="session")
def greedy_float32(served_float32: Served, peer: dict[str, Any]) -> dict[str, Answer]:
    """Every prompt decoded freely, many rows at a time."""
    prompts = {name: prompt["ids"] for name, prompt in peer["prompts"].items()}
    return generate(served_float32.engine, prompts, NUM_POSITIONS)


@pytest.fixture(scope="session")
def greedy_by_default(served_by_default: Served, peer: dict[str, Any]) -> dict[str, Answer]:
    prompts = {name: prompt["ids"] for name, prompt in peer["prompts"].items()}
    return generate(served_by_default.engine, prompts, NUM_POSITIONS)
