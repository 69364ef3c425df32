"""Inverse frequencies of rotary embeddings, plain and in the variants for long contexts.

Each variant takes the flat dict of hyperparameters.rope_parameters. Keys and their meaning are
those of `rope_scaling` / `rope_parameters` in Hugging Face configs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from stoker.errors import CorruptModel, UnsupportedModel

Parameters = Mapping[str, Any]


def inverse_frequencies(parameters: Parameters, size: int, max_context: int) -> tuple[torch.Tensor, float]:
    """Radians per position, float32 [size / 2], and the factor that multiplies cos and sin.

    `size` is the number of rotated dimensions, `max_context` the positions that will be served.
    Raises UnsupportedModel for an unknown variant, CorruptModel when a key of it is missing.
    """
    kind = parameters.get("rope_type", "default")
    # Early Phi-3 configs said "su", and for a while "yarn", for what is now called LongRoPE.
    if kind == "su" or (kind == "yarn" and "short_factor" in parameters):
        kind = "longrope"
    variant = _VARIANTS.get(kind)
    if variant is None:
        raise UnsupportedModel(
            f"Rotary embeddings of type {kind!r} are not supported. Supported: {', '.join(_VARIANTS)}."
        )
    try:
        return variant(parameters, size, max_context)
    except KeyError as missing:
        raise CorruptModel(f"The model's rope settings of type {kind!r} lack {missing}.") from None


def _plain(theta: float, size: int) -> torch.Tensor:
    return 1.0 / theta ** (torch.arange(0, size, 2, dtype=torch.float32) / size)


def _default(parameters: Parameters, size: int, max_context: int) -> tuple[torch.Tensor, float]:
    """As published, and the "dynamic" variant too: that one rescales only past
    max_position_embeddings, which is as far as we serve such a model."""
    return _plain(parameters["rope_theta"], size), 1.0


def _linear(parameters: Parameters, size: int, max_context: int) -> tuple[torch.Tensor, float]:
    """Positions squeezed by a factor (Chen et al. 2023, arXiv:2306.15595)."""
    return _plain(parameters["rope_theta"], size) / parameters["factor"], 1.0


def _llama3(parameters: Parameters, size: int, max_context: int) -> tuple[torch.Tensor, float]:
    """Llama 3.1: long wavelengths are slowed by `factor`, short ones kept, a ramp in between."""
    frequencies = _plain(parameters["rope_theta"], size)
    low, high = parameters["low_freq_factor"], parameters["high_freq_factor"]
    turns = parameters["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)  # 1 = unchanged, 0 = slowed
    return frequencies * (kept + (1 - kept) / parameters["factor"]), 1.0


def _yarn(parameters: Parameters, size: int, max_context: int) -> tuple[torch.Tensor, float]:
    """YaRN (Peng et al. 2023, arXiv:2309.00071): a ramp by dimension between kept and slowed
    frequencies, and cos and sin scaled to sharpen attention."""
    theta = parameters["rope_theta"]
    original = parameters["original_max_position_embeddings"]
    factor = parameters.get("factor") or parameters["max_position_embeddings"] / original

    def dimension_that_turns(times: float) -> float:
        """The (fractional) dimension pair that makes so many full turns in the original context."""
        return size * math.log(original / (times * 2 * math.pi)) / (2 * math.log(theta))

    low = dimension_that_turns(parameters.get("beta_fast") or 32)
    high = dimension_that_turns(parameters.get("beta_slow") or 1)
    if parameters.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    if low == high:
        high += 0.001  # a step instead of a ramp

    slowed = ((torch.arange(size // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    frequencies = _plain(theta, size) * ((1 - slowed) + slowed / factor)
    return frequencies, parameters.get("attention_factor") or _yarn_attention_factor(parameters, factor)


def _yarn_attention_factor(parameters: Parameters, factor: float) -> float:
    def mscale(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0

    over, under = parameters.get("mscale"), parameters.get("mscale_all_dim")
    return mscale(over) / mscale(under) if over and under else mscale(1.0)


def _longrope(parameters: Parameters, size: int, max_context: int) -> tuple[torch.Tensor, float]:
    """LongRoPE (Ding et al. 2024, arXiv:2402.13753): a factor per dimension pair, from a short
    and a long list. Cached keys cannot change lists when a row grows, so the longest context
    that will be served decides once for all rows."""
    original = parameters["original_max_position_embeddings"]
    key = "long_factor" if max_context > original else "short_factor"
    factors = torch.tensor(parameters[key], dtype=torch.float32)
    if factors.shape != (size // 2,):
        raise CorruptModel(f"{key} has {len(factors)} entries; {size // 2} dimension pairs are rotated.")
    ratio = parameters.get("factor") or parameters["max_position_embeddings"] / original
    scaling = parameters.get("attention_factor")
    if scaling is None:
        scaling = math.sqrt(1 + math.log(ratio) / math.log(original)) if ratio > 1 else 1.0
    return _plain(parameters["rope_theta"], size) / factors, scaling


_VARIANTS: dict[str, Callable[[Parameters, int, int], tuple[torch.Tensor, float]]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _default,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _longrope,
}
