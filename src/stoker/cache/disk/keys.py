"""Names for computed prefixes: a key stands for all tokens up to the end of a block.

A block's key is a hash of its parent's key and its own tokens, so equal keys mean equal
histories, and a chain of keys can be followed without knowing what came before. The root of the
chain is the namespace: everything that decides which numbers a model computes for given tokens.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Namespace:
    """Facts that two runs must share to use each other's keys and values, as plain JSON values:
    weights, KV layout, numerics, tokenizer, adapters, implementation."""

    facts: Mapping[str, object]
    label: str = ""  # for people: the model's name. Decides nothing

    @property
    def fingerprint(self) -> str:
        """64 hexadecimal digits."""
        text = json.dumps(self.facts, sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()

    @property
    def root(self) -> bytes:
        return hashlib.blake2b(self.fingerprint.encode(), digest_size=KEY_BYTES).digest()


def child_key(parent: bytes, tokens: Sequence[int]) -> bytes:
    packed = np.asarray(tokens, dtype="<i8").tobytes()
    return hashlib.blake2b(packed, digest_size=KEY_BYTES, key=parent).digest()


def chain(parent: bytes, tokens: Sequence[int], block_size: int) -> Iterator[bytes]:
    """The key at the end of each block; the last block may be partly filled."""
    packed = np.asarray(tokens, dtype="<i8").tobytes()
    for start in range(0, len(packed), 8 * block_size):
        parent = hashlib.blake2b(
            packed[start : start + 8 * block_size], digest_size=KEY_BYTES, key=parent
        ).digest()
        yield parent
