"""Typed look-ups in a GGUF file's metadata. What the keys mean is said where they are used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stoker.errors import CorruptModel, UnsupportedModel


class Metadata:
    """Keys are given without the architecture's prefix: `count("block_count")` reads
    `llama.block_count`. A value of the wrong type raises CorruptModel naming the key."""

    def __init__(self, values: Mapping[str, Any], path: Path) -> None:
        self.values = values
        self.path = path
        architecture = values.get("general.architecture")
        if not isinstance(architecture, str):
            raise CorruptModel(f"{path} does not say its architecture (general.architecture)")
        self.architecture = architecture

    def get(self, name: str) -> Any:
        """The value, or None. Lists that repeat one value (a number per layer) become it."""
        value = self.values.get(f"{self.architecture}.{name}")
        if isinstance(value, np.ndarray) and value.size and bool((value == value[0]).all()):
            value = value[0].item()
        if isinstance(value, float) and np.float32(value) == value:
            # Stored as float32: the shortest decimal that is the same float32 (1e-05, not 9.99e-06).
            return float(str(np.float32(value)))
        return value

    def count(self, name: str, default: int | None = None) -> int:
        """A positive whole number; `default` when the key is absent."""
        value = self.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, np.ndarray):
            raise UnsupportedModel(
                f"{self.path}: {name} differs from layer to layer, which stoker cannot run"
            )
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self._wrong(name, value)
        return value

    def count_or_none(self, name: str) -> int | None:
        """As `count`; None when the key is absent or 0, which is how files say "not used"."""
        value = self.get(name)
        return None if value is None or (isinstance(value, int) and value == 0) else self.count(name)

    def number(self, name: str, default: float | None = None) -> float:
        value = self.get(name)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(name, value)
        return float(value)

    def number_or_none(self, name: str) -> float | None:
        return None if self.get(name) is None else self.number(name)

    def text_or_none(self, name: str) -> str | None:
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, value)
        return value

    def token_id(self, name: str) -> int | None:
        value = self.values.get(f"tokenizer.ggml.{name}_token_id")
        return value if isinstance(value, int) else None

    def _wrong(self, name: str, value: Any) -> CorruptModel:
        what = "lacks" if value is None else f"has {value!r} for"
        return CorruptModel(f"{self.path} {what} the metadata key {self.architecture}.{name}")
