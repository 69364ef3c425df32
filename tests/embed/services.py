"""An embedding service on tiny random models, for tests of whatever stands on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.embed.tiny import make_cross_encoder, make_embedding_model

from stoker.embed.model import load_embedding_model
from stoker.embed.reranker import load_reranker
from stoker.embed.service import EmbedService, Part


def tiny_service(folder: Path, **files: Any) -> EmbedService:
    """`files` are further JSON files of the embedding model."""
    place = make_embedding_model(folder / "embedding", **files)
    make_cross_encoder(folder / "reranker")
    return EmbedService(
        lambda: Part("tiny/embedding", lambda: load_embedding_model("tiny/embedding", place)),
        lambda: Part("tiny/reranker", lambda: load_reranker("tiny/reranker", folder / "reranker")),
        num_threads=2,
    )
