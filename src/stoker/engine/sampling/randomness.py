"""Random numbers that belong to one request: the same key always gives the same number.

No generator state: a number is a hash of what it is for, so neither the neighbours in a batch,
nor the order of calls, nor a rolled-back step can change it.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from enum import IntEnum


class Purpose(IntEnum):
    """What a number is drawn for; numbers for different purposes are independent."""

    TOKEN = 0
    XTC = 1


class RandomStream:
    """Uniform numbers keyed by (seed, choice index, position, purpose), by BLAKE2b (RFC 7693).

    Any integer is a seed. None takes fresh entropy from the system.
    """

    __slots__ = ("_key",)

    def __init__(self, seed: int | None, choice_index: int = 0) -> None:
        if seed is None:
            material = secrets.token_bytes(32)
        else:
            material = seed.to_bytes((seed.bit_length() + 8) // 8, "little", signed=True)
        self._key = hashlib.blake2b(struct.pack("<Q", choice_index) + material, digest_size=32).digest()

    @property
    def key(self) -> bytes:
        """Decides all its numbers."""
        return self._key

    @classmethod
    def from_key(cls, key: bytes) -> RandomStream:
        stream = cls(0)
        stream._key = key
        return stream

    def uniform(self, position: int, purpose: Purpose) -> float:
        """A multiple of 2**-53 in [0, 1)."""
        message = struct.pack("<QQ", position, purpose)
        digest = hashlib.blake2b(message, digest_size=8, key=self._key).digest()
        return (int.from_bytes(digest, "little") >> 11) * 2.0**-53
