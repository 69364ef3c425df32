"""Model families and the formats they are loaded from.

Importing this package is cheap; torch and the families come with the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

    from stoker.models.layers.decoder import Decoder
    from stoker.models.weights import Checkpoint

__all__ = ["load_model", "supported_architectures"]


def load_model(
    checkpoint: Checkpoint,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
    quantize: Literal[4, 8] | None = None,
    max_context: int | None = None,
    int8_planes: int = 0,
) -> Decoder:
    """Build the model a checkpoint holds. The result is a `base.CausalLM`.

    dtype        activations and dense weights; None means float32
    quantize     bits to quantize dense matrices to while they are read; None keeps them
    max_context  positions that will be served. It lowers `facts.max_context`, and it decides
                 between the short and long factors of LongRoPE; None serves all the model can
    int8_planes  how native kernels may round the activations of quantized matrices, see
                 kernels/packed.py; 0 = not at all

    Raises UnsupportedModel for an architecture, activation or position scaling we have no code
    for, CorruptModel when a weight or a needed configuration key is missing or misshapen.
    """
    from stoker.models import registry

    return registry.load_model(checkpoint, dtype, device, quantize, max_context, int8_planes)


def supported_architectures() -> tuple[str, ...]:
    """Architecture names, as in `architectures` of config.json, sorted."""
    from stoker.models import registry

    return registry.supported_architectures()
