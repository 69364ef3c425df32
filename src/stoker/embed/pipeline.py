"""What the files of sentence-transformers say of a model: pooling, dense layers, normalization,
prompts, and how much of a text is read.

modules.json lists the stages; each has a folder of its own. Without it: the mean of an encoder's
states or the last of a decoder's, normalized.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from stoker.embed.packing import PackedBatch
from stoker.embed.pooling import Pooling, pool, read_poolings
from stoker.embed.weights import EncoderWeights
from stoker.errors import CorruptModel, UnsupportedModel
from stoker.kernels.activations import Activation
from stoker.kernels.affine import Affine
from stoker.models.formats.hf_folder import read_json, read_optional_json
from stoker.models.formats.safetensors import SafetensorsCheckpoint

_ACTIVATIONS: dict[str, Activation] = {
    "Identity": lambda x: x,
    "Tanh": torch.tanh,
    "ReLU": F.relu,
    "GELU": F.gelu,
    "SiLU": F.silu,
}


@dataclass(frozen=True, slots=True)
class Dense:
    linear: Affine
    activation: str  # of torch.nn

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return _ACTIVATIONS[self.activation](self.linear(x))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How hidden states become a vector, and what goes before a text."""

    poolings: tuple[Pooling, ...]
    dense: tuple[Dense, ...] = ()
    normalizes: bool = True
    prompts: dict[str, str] = field(default_factory=dict)  # by name: "query", "document", ...
    default_prompt: str = ""
    max_tokens: int | None = None  # of a text, special tokens included; None = the model's own
    lowercases: bool = False

    def dimension(self, hidden_size: int) -> int:
        if self.dense:
            return int(self.dense[-1].linear.out_features)
        return hidden_size * len(self.poolings)

    def apply(self, x: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
        """[T, hidden] -> [sequences, dimension], float32."""
        vectors = pool(x, batch, self.poolings)
        for dense in self.dense:
            vectors = dense(vectors)
        return F.normalize(vectors, dim=-1) if self.normalizes else vectors


def read_pipeline(folder: Path, *, is_encoder: bool, device: str = "cpu") -> Pipeline:
    """Raises UnsupportedModel for a stage we do not know, CorruptModel for a damaged file."""
    prompts, default = _prompts(folder)
    stages = _stages(folder)
    if not stages:
        pooling: Pooling = "mean" if is_encoder else "lasttoken"
        return Pipeline((pooling,), prompts=prompts, default_prompt=default)
    poolings: tuple[Pooling, ...] = ()
    dense: list[Dense] = []
    normalizes, max_tokens, lowercases = False, None, False
    for kind, place in stages:
        if kind == "Transformer":
            facts = read_optional_json(place / "sentence_bert_config.json")
            max_tokens = _positive(facts.get("max_seq_length"))
            lowercases = bool(facts.get("do_lower_case"))
        elif kind == "Pooling":
            poolings = read_poolings(read_json(place / "config.json"))
        elif kind == "Dense":
            dense.append(_read_dense(place, device))
        elif kind == "Normalize":
            normalizes = True
        elif kind != "Dropout":
            raise UnsupportedModel(f"The model has a stage {kind}, which stoker does not compute.")
    if not poolings:
        raise CorruptModel(f"{folder / 'modules.json'} lists no pooling")
    return Pipeline(poolings, tuple(dense), normalizes, prompts, default, max_tokens, lowercases)


def transformer_folder(folder: Path) -> Path:
    """Where the transformer itself lies: the folder, or the first stage's."""
    return next((place for kind, place in _stages(folder) if kind == "Transformer"), folder)


def _stages(folder: Path) -> list[tuple[str, Path]]:
    """Kind and folder of each, in order."""
    path = folder / "modules.json"
    if not path.exists():
        return []
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
        stages = [(str(stage["type"]).rpartition(".")[2], str(stage["path"])) for stage in listed]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptModel(f"{path} cannot be read: {error}") from error
    for _, place in stages:
        if Path(place).is_absolute() or ".." in Path(place).parts:
            raise CorruptModel(f"{path} names a folder outside the model's: {place!r}")
    return [(kind, folder / place) for kind, place in stages]


def _read_dense(folder: Path, device: str) -> Dense:
    config = read_json(folder / "config.json")
    activation = str(config.get("activation_function", "torch.nn.modules.activation.Tanh")).rpartition(".")[2]
    if activation not in _ACTIVATIONS:
        raise UnsupportedModel(f"{folder.name} has the activation {activation}, which is not supported.")
    weights = EncoderWeights(SafetensorsCheckpoint(folder, config), ("",), "", device=device)
    rows, columns = _positive(config.get("out_features")), _positive(config.get("in_features"))
    if rows is None or columns is None:
        raise CorruptModel(f"{folder / 'config.json'} does not say how large the layer is")
    return Dense(weights.linear("linear", rows, columns), activation)


def _prompts(folder: Path) -> tuple[dict[str, str], str]:
    facts = read_optional_json(folder / "config_sentence_transformers.json")
    listed: Any = facts.get("prompts") or {}
    if not isinstance(listed, dict):
        raise CorruptModel(f"{folder / 'config_sentence_transformers.json'} has prompts that are no object")
    prompts = {str(name): text for name, text in listed.items() if isinstance(text, str)}
    return prompts, prompts.get(str(facts.get("default_prompt_name")), "")


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
