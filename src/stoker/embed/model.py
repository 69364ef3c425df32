"""A loaded embedding model: what a request's texts become, and the passes that compute them.

It computes nothing by itself: `passes` gives work to a lane (lane.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stoker.embed.encoder import Encoder
from stoker.embed.loading import EXACT, EncoderNumerics, build_encoder, is_encoder
from stoker.embed.packing import Tokens
from stoker.embed.passes import Pass, Vectors, make_passes
from stoker.embed.pipeline import Pipeline, read_pipeline, transformer_folder
from stoker.embed.tokens import SentenceTokenizer
from stoker.errors import UnsupportedModel
from stoker.models.formats import open_checkpoint


@dataclass(frozen=True)
class EmbeddingModel:
    id: str
    tokenizer: SentenceTokenizer
    encoder: Encoder
    pipeline: Pipeline
    device: str = "cpu"

    @property
    def dimension(self) -> int:
        return self.pipeline.dimension(self.encoder.hidden_size)

    @property
    def max_tokens(self) -> int:
        """Of one text, special tokens included."""
        stated = self.pipeline.max_tokens or self.tokenizer.model_max_length or self.encoder.max_tokens
        return min(stated, self.encoder.max_tokens)

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> list[Tokens]:
        """With special tokens, at full length."""
        prompted = [prompt + text for text in texts] if prompt else texts
        return [self.tokenizer.frame(ids) for ids in self.tokenizer.ids(prompted)]

    def truncate(self, tokens: Tokens) -> Tokens:
        """Cut at the end, special tokens kept."""
        if len(tokens.ids) <= self.max_tokens:
            return tokens
        suffix = self.tokenizer.suffix
        return Tokens((*tokens.ids[: self.max_tokens - len(suffix)], *suffix))

    def passes(self, items: Sequence[Tokens]) -> list[Pass]:
        """The work that makes float32 [n, dimension] of n items, each within `max_tokens`."""
        return make_passes(self.encoder, items, self.device, self.pipeline.apply)


def load_embedding_model(
    id: str,
    path: Path,
    *,
    numerics: EncoderNumerics = EXACT,
    device: str = "cpu",
) -> EmbeddingModel:
    """Raises ModelNotFound, UnsupportedModel or CorruptModel."""
    if path.is_file():
        raise UnsupportedModel(f"{id} is a GGUF file; embeddings need the model's safetensors folder")
    folder = transformer_folder(path)
    checkpoint = open_checkpoint(folder)
    pipeline = read_pipeline(path, is_encoder=is_encoder(checkpoint), device=device)
    encoder = build_encoder(checkpoint, numerics, device)
    backend, config = checkpoint.tokenizer()
    tokenizer = SentenceTokenizer(backend, config, lowercases=pipeline.lowercases)
    return EmbeddingModel(id, tokenizer, encoder, pipeline, device)


def shorten(vectors: Vectors, dimensions: int | None) -> Vectors:
    """The first `dimensions` of each, as long as 1 again (Matryoshka, arXiv:2205.13147)."""
    if dimensions is None or dimensions == vectors.shape[1]:
        return vectors
    short = vectors[:, :dimensions]
    lengths = np.linalg.norm(short, axis=1, keepdims=True)
    scaled: Vectors = short / np.maximum(lengths, 1e-12)
    return scaled
