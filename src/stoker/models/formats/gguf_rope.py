"""Rope settings of a GGUF file in the words of a Hugging Face configuration.

Position scaling is partly metadata (linear, YaRN) and partly tensors of per-frequency divisors:
`rope_freqs.weight` for Llama 3, `rope_factors_{short,long}.weight` for Phi-3's LongRoPE.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from stoker.models.formats.gguf_metadata import Metadata

Factors = npt.NDArray[np.float64]
ReadFactors = Callable[[str], Factors | None]  # tensor name without layer or suffix -> values

_YARN_KEYS = {
    "rope.scaling.yarn_attn_factor": "attention_factor",
    "rope.scaling.yarn_beta_fast": "beta_fast",
    "rope.scaling.yarn_beta_slow": "beta_slow",
}


def rope_scaling(
    meta: Metadata, read_factors: ReadFactors, *, theta: float, max_position_embeddings: int
) -> dict[str, Any] | None:
    """The `rope_scaling` entry of config.json, or None for plain rope."""
    long_factors, short_factors = read_factors("rope_factors_long"), read_factors("rope_factors_short")
    if long_factors is not None and short_factors is not None:
        original = meta.count("rope.scaling.original_context_length", max_position_embeddings)
        return _longrope(
            short_factors, long_factors, original, meta.number_or_none("rope.scaling.attn_factor")
        )
    freqs = read_factors("rope_freqs")
    if freqs is not None and not bool(np.all(freqs == 1.0)):
        return llama3_scaling(freqs, theta) or _longrope(freqs, freqs, max_position_embeddings, 1.0)
    kind = meta.text_or_none("rope.scaling.type")
    factor = meta.number_or_none("rope.scaling.factor")
    if kind == "yarn" and factor:
        found: dict[str, Any] = {"rope_type": "yarn", "factor": factor}
        if original_length := meta.count_or_none("rope.scaling.original_context_length"):
            found["original_max_position_embeddings"] = original_length
        for name, ours in _YARN_KEYS.items():
            if (value := meta.number_or_none(name)) is not None:
                found[ours] = value
        return found
    if kind in (None, "linear"):
        factor = factor or meta.number_or_none("rope.scale_linear")  # how early files said it
        if factor and factor != 1.0:
            return {"rope_type": "linear", "factor": factor}
    return None


def _longrope(short: Factors, long: Factors, original: int, attention_factor: float | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "rope_type": "longrope",
        "short_factor": short.tolist(),
        "long_factor": long.tolist(),
        "original_max_position_embeddings": original,
    }
    if attention_factor is not None:
        found["attention_factor"] = attention_factor
    return found


def llama3_scaling(freqs: Factors, theta: float) -> dict[str, Any] | None:
    """The Llama 3.1 parameters that give these divisors, or None when none do.

    With wavelength w, the divisor is 1 below L/high, `factor` above L/low, and between them
    1 / ((1 - s)/factor + s) with s = (L/w - low) / (high - low), which is linear in 1/w. Two
    points of the slope give L/low and L/high; that is all the formula depends on, so `low` is
    set to 1 as in every published checkpoint.
    """
    half = freqs.size
    inverse_wavelengths = theta ** (-np.arange(half) / half) / (2 * math.pi)
    factor = float(freqs.max())
    slope = (freqs > 1.0 + 1e-5) & (freqs < factor * (1 - 1e-5))
    if factor <= 1.0:
        return None
    for low, high, length in _candidates(freqs[slope], inverse_wavelengths[slope], factor):
        if np.allclose(
            _llama3_factors(inverse_wavelengths, factor, low, high, length), freqs, rtol=1e-5, atol=0
        ):
            return {
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low,
                "high_freq_factor": high,
                "original_max_position_embeddings": length,
            }
    return None


def _candidates(
    freqs: Factors, inverse_wavelengths: Factors, factor: float
) -> list[tuple[float, float, int]]:
    """(low, high, original length) to try: the published values first, then the fitted ones."""
    found = [(1.0, 4.0, 8192)]
    if freqs.size >= 2:
        smooth = (1 / freqs - 1 / factor) / (1 - 1 / factor)
        gradient, intercept = np.polyfit(inverse_wavelengths, smooth, 1)
        if intercept < 0:
            high = 1 - 1 / float(intercept)
            for rounded in (float(round(high)), high):
                found.append((1.0, rounded, round(float(gradient) * (high - 1))))
    return found


def _llama3_factors(
    inverse_wavelengths: Factors, factor: float, low: float, high: float, length: int
) -> Factors:
    if high == low:
        return np.full_like(inverse_wavelengths, np.nan)
    smooth = np.clip((length * inverse_wavelengths - low) / (high - low), 0.0, 1.0)
    result: Factors = 1 / ((1 - smooth) / factor + smooth)
    return result
