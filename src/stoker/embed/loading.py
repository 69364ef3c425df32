"""Which family computes a checkpoint. Adding an encoder is adding a file to families/."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Literal

import torch

from stoker.embed.encoder import Encoder, Head
from stoker.embed.families import bert, decoders, modernbert, nomic_bert
from stoker.errors import UnsupportedModel
from stoker.models.weights import Checkpoint


@dataclass(frozen=True, slots=True)
class EncoderNumerics:
    """The number formats a model is computed in. Sums, norms and attention scores are float32."""

    products: torch.dtype = torch.float32  # weights and products of encoders, as in kernels/affine.py
    decoder: torch.dtype = torch.float32  # the rest is for language models: as in `load_model`
    quantize: Literal[4, 8] | None = None
    int8_planes: int = 0


EXACT = EncoderNumerics()

ENCODERS: tuple[ModuleType, ...] = (bert, modernbert, nomic_bert)


def build_encoder(checkpoint: Checkpoint, numerics: EncoderNumerics = EXACT, device: str = "cpu") -> Encoder:
    """Raises UnsupportedModel or CorruptModel."""
    family = _encoder_family(checkpoint)
    if family is not None:
        encoder: Encoder = family.build(checkpoint, numerics.products, device)
        return encoder
    return decoders.build(
        checkpoint,
        numerics.decoder,
        device,
        quantize=numerics.quantize,
        int8_planes=numerics.int8_planes,
    )


def build_head(checkpoint: Checkpoint, num_labels: int, device: str = "cpu") -> Head:
    """The classifier of a cross-encoder. Raises UnsupportedModel or CorruptModel."""
    family = _encoder_family(checkpoint)
    if family is None or not hasattr(family, "read_head"):
        raise UnsupportedModel(f"Classifiers of {checkpoint.config.get('model_type')} are not supported.")
    head: Head = family.read_head(checkpoint, num_labels, device)
    return head


def is_encoder(checkpoint: Checkpoint) -> bool:
    """Whether the model is an encoder by nature, not a language model used as one."""
    return _encoder_family(checkpoint) is not None


def _encoder_family(checkpoint: Checkpoint) -> ModuleType | None:
    model_type = checkpoint.config.get("model_type")
    return next((family for family in ENCODERS if model_type in family.MODEL_TYPES), None)
