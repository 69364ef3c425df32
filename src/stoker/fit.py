"""How much context fits into a given memory beside the weights. Arithmetic only: no torch, no model.

An estimate, and advice unless the operator has set a budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoker.config import Settings

_FLOAT_BYTES = 4  # of activations and logits, the widest that is used


@dataclass(frozen=True, slots=True)
class Fit:
    usable_bytes: int  # what model, keys and values may take together
    weights_bytes: int
    transient_bytes: int  # one step's activations and logits
    token_bytes: int  # keys and values of one token, all layers
    window: int  # positions the model was made for
    beside_bytes: int = 0  # weights of other models in the same memory

    @property
    def kv_room_bytes(self) -> int:
        """What is left for keys and values; 0 when even the weights do not fit."""
        return max(0, self.usable_bytes - self.weights_bytes - self.beside_bytes - self.transient_bytes)

    @property
    def max_safe_context(self) -> int:
        """Tokens of one row, never more than the model's window."""
        return min(self.window, self.kv_room_bytes // self.token_bytes)

    def kv_bytes(self, num_tokens: int) -> int:
        return num_tokens * self.token_bytes

    def total_bytes(self, num_tokens: int) -> int:
        return self.weights_bytes + self.beside_bytes + self.transient_bytes + self.kv_bytes(num_tokens)

    def fits(self, num_tokens: int) -> bool:
        return self.total_bytes(num_tokens) <= self.usable_bytes

    def decode_tps(self, bandwidth_gbs: float, num_tokens: int) -> float:
        """Tokens a second of one row that holds `num_tokens`, when memory is the limit: a step reads
        all weights, and the row's keys and values, once."""
        step_bytes = self.weights_bytes + self.kv_bytes(num_tokens)
        return bandwidth_gbs * 1e9 / step_bytes if step_bytes else 0.0


def transient_bytes(
    *, max_rows: int, prefill_chunk: int, vocab_size: int, hidden_size: int, intermediate_size: int
) -> int:
    """Activations of the largest step: about six vectors of the hidden and three of the intermediate
    size for each token, and the logits of each row twice (raw and shaped)."""
    per_token = 6 * hidden_size + 3 * intermediate_size
    tokens = prefill_chunk + max_rows
    return _FLOAT_BYTES * (tokens * per_token + 2 * max_rows * vocab_size)


VECTORS_SHARE = 1 / 64  # of the prompt cache: 128 MiB of 8 GiB, or 70,000 vectors of 384 numbers


def vector_cache_bytes(settings: Settings) -> int:
    """Of the prompt cache's memory, what embeddings of earlier requests may take."""
    if settings.embedding_model == "none":
        return 0
    return int(settings.prompt_cache * 2**30 * VECTORS_SHARE)


def prefix_cache_bytes(settings: Settings) -> int:
    """And what is left for keys and values."""
    return int(settings.prompt_cache * 2**30) - vector_cache_bytes(settings)
