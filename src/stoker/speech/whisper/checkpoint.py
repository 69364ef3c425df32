"""A Whisper checkpoint of any format: sizes, weights by Hugging Face names, tokenizer, alignment heads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import tokenizers
import torch

from stoker.errors import CorruptModel, ModelNotFound, UnsupportedModel
from stoker.kernels.quantized import Weight, as_dense, concat
from stoker.kernels.source import InMemory, MatrixSource, stack
from stoker.models.formats.hf_folder import read_json, read_optional_json, read_tokenizer
from stoker.models.formats.safetensors import SafetensorsCheckpoint
from stoker.speech.whisper.dims import Dimensions, is_mlx_config, read_dimensions
from stoker.speech.whisper.formats.ctranslate2 import Ctranslate2Weights, is_ctranslate2
from stoker.speech.whisper.formats.mlx import open_mlx
from stoker.speech.whisper.hub_tokenizer import find_tokenizer


class Weights(Protocol):
    def __contains__(self, name: object) -> bool: ...

    def get(self, name: str) -> Weight:
        """Raises CorruptModel when there is none."""
        ...

    def matrix(self, name: str) -> MatrixSource:
        """The same, a block of rows at a time."""
        ...


@dataclass(frozen=True, slots=True)
class WhisperCheckpoint:
    dims: Dimensions
    weights: Weights
    read_tokenizer: Callable[[], tokenizers.Tokenizer]  # takes a tenth of a second; raises CorruptModel
    alignment_heads: tuple[tuple[int, int], ...]  # (layer, head) whose attention follows the sound

    def matrix(self, name: str) -> MatrixSource:
        return self.weights.matrix(name)

    def dense(self, name: str) -> torch.Tensor:
        """In float32."""
        return as_dense(self.weights.get(name)).float()

    def stacked(self, module: str, names: Sequence[str]) -> tuple[MatrixSource, torch.Tensor]:
        """Projections meant to be one product, and their biases one after another. Keys have no bias."""
        parts = [self.matrix(f"{module}.{name}.weight") for name in names]
        biases = []
        for name, part in zip(names, parts, strict=True):
            bias = f"{module}.{name}.bias"
            biases.append(self.dense(bias) if bias in self.weights else torch.zeros(part.shape[0]))
        stacked = stack(parts) or InMemory(concat([part.read(0, part.shape[0]) for part in parts]))
        return stacked, torch.cat(biases)


def open_whisper(folder: Path) -> WhisperCheckpoint:
    """Raises ModelNotFound, CorruptModel or UnsupportedModel."""
    if not folder.is_dir():
        raise ModelNotFound(f"{folder} is not a folder with a Whisper checkpoint")
    config = read_json(folder / "config.json")
    weights: Weights
    if is_ctranslate2(folder):
        ct2 = Ctranslate2Weights(folder / "model.bin")
        weights, dims, heads = ct2, ct2.dims, config.get("alignment_heads")
    elif is_mlx_config(config):
        dims = read_dimensions(config)
        weights, heads = open_mlx(folder, config, dims)
    elif config.get("model_type") == "whisper":
        dims = read_dimensions(config)
        weights = SafetensorsCheckpoint(folder, config)
        heads = read_optional_json(folder / "generation_config.json").get("alignment_heads")
    else:
        raise UnsupportedModel(f"{folder} holds no Whisper checkpoint")

    def read() -> tokenizers.Tokenizer:
        if (folder / "tokenizer.json").exists():
            return read_tokenizer(folder)[0]
        return find_tokenizer(folder, dims)

    return WhisperCheckpoint(dims, weights, read, _alignment_heads(heads, dims, folder))


def _alignment_heads(heads: object, dims: Dimensions, folder: Path) -> tuple[tuple[int, int], ...]:
    """The heads the checkpoint names, or all of the upper half of the layers, as openai-whisper does."""
    if not heads:
        layers = range(dims.text_layers // 2, dims.text_layers)
        return tuple((layer, head) for layer in layers for head in range(dims.text_heads))
    try:
        found = tuple((int(layer), int(head)) for layer, head in heads)  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise CorruptModel(f"{folder}: alignment_heads is not a list of pairs") from error
    if any(not (0 <= i < dims.text_layers and 0 <= j < dims.text_heads) for i, j in found):
        raise CorruptModel(f"{folder}: alignment_heads names a head that does not exist")
    return found
