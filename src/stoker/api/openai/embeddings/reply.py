"""Vectors as the answer's JSON."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from stoker.embed.passes import Vectors


def embeddings_object(
    vectors: Vectors, *, model: str, num_tokens: int, encoding: Literal["float", "base64"]
) -> dict[str, Any]:
    rows: list[Any] = (
        vectors.tolist()
        if encoding == "float"
        else [base64.b64encode(row.astype("<f4").tobytes()).decode("ascii") for row in vectors]
    )
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)],
        "model": model,
        "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
    }
