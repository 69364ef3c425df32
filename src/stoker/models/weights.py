"""What a checkpoint gives, whatever its format: named weights under Hugging Face names.

Formats (safetensors, MLX-quantized safetensors, GGUF) are adapters that implement
`Checkpoint`; model families read it and know nothing of formats.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from stoker.kernels.quantized import QuantizedTensor, Weight

__all__ = ["Checkpoint", "QuantizedTensor", "Weight"]


class Checkpoint(Protocol):
    """Named weights plus the model's own configuration.

    Names are those of the Hugging Face checkpoint of the same family
    (`model.layers.0.self_attn.q_proj.weight`). Reading is lazy and memory-mapped: `get`
    touches only that tensor's pages, and a caller that drops the result drops the memory.
    """

    config: dict[str, Any]  # Hugging Face config.json, or the same built from GGUF metadata

    def names(self) -> Iterable[str]: ...

    def __contains__(self, name: object) -> bool: ...

    def get(self, name: str) -> Weight:
        """The weight called `name`. A module's quantized weight is reached by the name its
        dense `.weight` would have. Raises CorruptModel when it is missing or truncated."""
        ...
