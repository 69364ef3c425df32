"""The sampling defaults a model brings along in generation_config.json.

Request fields and server flags come before them; putting the three together is the front's work.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FALLBACK_TEMPERATURE = 0.7


@dataclass(frozen=True, slots=True)
class GenerationDefaults:
    """None = the model does not say. `do_sample` is not read: its file default is false even where
    the model was made to be sampled."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> GenerationDefaults:
        """Reads generation_config.json; values of a wrong type or out of range count as absent."""
        top_k = _number(config, "top_k", 0, math.inf)
        return cls(
            temperature=_number(config, "temperature", 0, math.inf),
            top_p=_number(config, "top_p", 0, 1),
            top_k=None if top_k is None else int(top_k),
            min_p=_number(config, "min_p", 0, 1),
            repetition_penalty=_number(config, "repetition_penalty", 0, math.inf),
        )

    def unset_temperature(self, thinking: bool = False) -> float:
        """The temperature of a request that names none: the model's value, else 0.7; without
        thinking never above 0.7."""
        own = FALLBACK_TEMPERATURE if self.temperature is None else self.temperature
        return own if thinking else min(own, FALLBACK_TEMPERATURE)


def _number(config: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    value = config.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and low <= value <= high else None
