"""What a checkpoint gives, whatever its format: named weights under Hugging Face names.

Formats (safetensors, MLX-quantized safetensors, GGUF) are adapters that implement
`Checkpoint`; model families read it and know nothing of formats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from stoker.errors import CorruptModel
from stoker.kernels.quantized import QuantizedTensor, Weight
from stoker.kernels.source import MatrixSource

__all__ = ["Checkpoint", "MatrixSource", "QuantizedTensor", "Weight", "two_dimensions"]


class Checkpoint(Protocol):
    """Named weights plus the model's own configuration.

    Names are those of the Hugging Face checkpoint of the same family
    (`model.layers.0.self_attn.q_proj.weight`). A module's quantized weight is reached by the name its
    dense `.weight` would have. Reading is lazy and memory-mapped. All methods raise CorruptModel when
    the weight is missing or truncated.
    """

    config: dict[str, Any]  # Hugging Face config.json, or the same built from GGUF metadata

    def names(self) -> Iterable[str]: ...

    def __contains__(self, name: object) -> bool: ...

    def get(self, name: str) -> Weight:
        """The whole weight. A caller that drops the result drops the memory."""
        ...

    def matrix(self, name: str) -> MatrixSource:
        """A weight of two dimensions, to be read block by block."""
        ...


def two_dimensions(name: str, shape: Sequence[int]) -> tuple[int, int]:
    """`shape` as that of a matrix. Raises CorruptModel."""
    if len(shape) != 2:
        raise CorruptModel(f"The weight {name} has shape {list(shape)}; it should be a matrix.")
    return shape[0], shape[1]
