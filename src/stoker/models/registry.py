"""Which family builds which architecture. Adding a family is adding a file to families/.

A family file declares ARCHITECTURES and MODEL_TYPES (the names config.json uses) and
`build(reader) -> Decoder`; nothing here names a family.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, Protocol, cast

import torch

from stoker.errors import UnsupportedModel
from stoker.models import families
from stoker.models.layers.decoder import Decoder
from stoker.models.reader import WeightReader
from stoker.models.weights import Checkpoint


class Family(Protocol):
    """What a module in families/ offers."""

    ARCHITECTURES: tuple[str, ...]
    MODEL_TYPES: tuple[str, ...]  # for a config that names no architecture

    def build(self, reader: WeightReader) -> Decoder: ...


@cache
def all_families() -> tuple[Family, ...]:
    names = sorted(module.name for module in pkgutil.iter_modules(families.__path__))
    return tuple(cast(Family, importlib.import_module(f"{families.__name__}.{name}")) for name in names)


def supported_architectures() -> tuple[str, ...]:
    return tuple(sorted(name for family in all_families() for name in family.ARCHITECTURES))


def find_family(config: Mapping[str, Any]) -> Family:
    """The family of a config: by its first architecture, or by model_type when it names none."""
    architectures = config.get("architectures") or []
    model_type = config.get("model_type")
    for family in all_families():
        if architectures:
            if architectures[0] in family.ARCHITECTURES:
                return family
        elif model_type in family.MODEL_TYPES:
            return family
    named = architectures[0] if architectures else model_type or "unnamed"
    raise UnsupportedModel(
        f"The architecture {named} is not supported. Supported: {', '.join(supported_architectures())}."
    )


def load_model(
    checkpoint: Checkpoint,
    dtype: torch.dtype | None,
    device: torch.device | str,
    quantize: Literal[4, 8] | None,
    max_context: int | None,
    int8_planes: int,
) -> Decoder:
    """See `stoker.models.load_model`."""
    family = find_family(checkpoint.config)
    with WeightReader(
        checkpoint,
        dtype or torch.float32,
        device,
        quantize=quantize,
        max_context=max_context,
        int8_planes=int8_planes,
    ) as reader:
        model = family.build(reader)
        reader.report_unused()
        return model
