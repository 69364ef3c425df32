"""Rope settings: what the file's divisors mean must be what transformers computes from ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from stoker.models.formats.gguf_metadata import Metadata
from stoker.models.formats.gguf_rope import Factors, rope_scaling

_HEAD_DIM = 64


def _inverse_frequencies(theta: float, scaling: dict[str, Any], max_position_embeddings: int) -> Factors:
    config = LlamaConfig(
        hidden_size=_HEAD_DIM,
        num_attention_heads=1,
        rope_parameters=scaling | {"rope_theta": theta},
        max_position_embeddings=max_position_embeddings,
    )
    frequencies, attention_factor = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, "cpu", seq_len=1)
    assert attention_factor == 1.0
    result: Factors = frequencies.double().numpy()
    return result


def _scaling(
    factors: dict[str, Factors] | None = None, metadata: dict[str, Any] | None = None, theta: float = 1e4
) -> dict[str, Any] | None:
    values = {f"llama.{key}": value for key, value in (metadata or {}).items()}
    meta = Metadata({"general.architecture": "llama"} | values, Path("model.gguf"))
    return rope_scaling(meta, (factors or {}).get, theta=theta, max_position_embeddings=131072)


@pytest.mark.parametrize(
    ("theta", "factor", "low", "high", "length"),
    [
        (500_000.0, 8.0, 1.0, 4.0, 8192),  # Llama 3.1
        (500_000.0, 32.0, 1.0, 4.0, 8192),  # Llama 3.2
        (10_000.0, 4.0, 2.0, 8.0, 4096),
        (1_000_000.0, 16.0, 1.0, 3.0, 16384),
        (500_000.0, 8.0, 0.5, 3.3, 5000),
    ],
)
def test_llama3(theta: float, factor: float, low: float, high: float, length: int) -> None:
    original = {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": length,
    }
    wanted = _inverse_frequencies(theta, original, 131072)
    plain = theta ** (-np.arange(0, _HEAD_DIM, 2) / _HEAD_DIM)
    # The converter stores the divisors as float32.
    factors = (plain / wanted).astype(np.float32).astype(np.float64)
    found = _scaling({"rope_freqs": factors}, theta=theta)
    assert found is not None
    assert found["rope_type"] == "llama3"
    np.testing.assert_allclose(_inverse_frequencies(theta, found, 131072), wanted, rtol=2e-5)
    if (low, high, length) == (1.0, 4.0, 8192):
        assert found == original


def test_divisors_of_another_kind_are_kept_as_they_are() -> None:
    factors = np.linspace(1.0, 3.0, _HEAD_DIM // 2)
    found = _scaling({"rope_freqs": factors})
    assert found is not None
    assert found["rope_type"] == "longrope"
    plain = 1e4 ** (-np.arange(0, _HEAD_DIM, 2) / _HEAD_DIM)
    np.testing.assert_allclose(_inverse_frequencies(1e4, found, 131072), plain / factors, rtol=1e-6)


def test_divisors_of_one_mean_nothing() -> None:
    assert _scaling({"rope_freqs": np.ones(_HEAD_DIM // 2)}) is None


def test_metadata_kinds() -> None:
    assert _scaling() is None
    assert _scaling(metadata={"rope.scaling.type": "none"}) is None
    assert _scaling(metadata={"rope.scaling.type": "linear", "rope.scaling.factor": 2.0}) == {
        "rope_type": "linear",
        "factor": 2.0,
    }
    assert _scaling(metadata={"rope.scale_linear": 4.0}) == {"rope_type": "linear", "factor": 4.0}
    yarn = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 32768,
        "rope.scaling.yarn_beta_fast": 16.0,
        "rope.scaling.yarn_beta_slow": 2.0,
        "rope.scaling.yarn_attn_factor": 1.25,
    }
    assert _scaling(metadata=yarn) == {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "attention_factor": 1.25,
    }


def test_longrope_with_its_attention_factor() -> None:
    short, long = np.array([1.0, 1.5]), np.array([2.0, 40.0])
    metadata = {"rope.scaling.original_context_length": 4096, "rope.scaling.attn_factor": 1.19}
    assert _scaling({"rope_factors_short": short, "rope_factors_long": long}, metadata) == {
        "rope_type": "longrope",
        "short_factor": [1.0, 1.5],
        "long_factor": [2.0, 40.0],
        "original_max_position_embeddings": 4096,
        "attention_factor": 1.19,
    }
