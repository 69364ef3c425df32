"""A generation under way, as a small file: what was said, so that the same request can go on from there.

Keys and values are not in it; they are a history like any other (segment.py). The name is a hash of
everything that decides the answer, so a request that differs in any of it finds nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.cache.disk.segment import BadSegment, hash_of

SUFFIX = ".checkpoint"
FORMAT = "stoker-generation"
VERSION = 1
MAX_BYTES = 64 * 2**20
_NAME = re.compile(r"([0-9a-f]{64})\.checkpoint")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    identity: str  # of identity_of
    generated: tuple[int, ...]  # the last of them has not been computed yet
    random_key: str  # of the row's random numbers, in hexadecimal digits

    @property
    def name(self) -> str:
        return self.identity + SUFFIX


def identity_of(prompt_ids: Sequence[int], policy: Mapping[str, object]) -> str:
    """`policy` is all that decides the answer besides prompt and namespace, as plain JSON values."""
    text = json.dumps([list(prompt_ids), policy], sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()


def parse_name(name: str) -> str | None:
    """The identity."""
    found = _NAME.fullmatch(name)
    return found[1] if found else None


def encode(checkpoint: Checkpoint) -> bytes:
    body = {
        "format": FORMAT,
        "version": VERSION,
        "identity": checkpoint.identity,
        "generated": list(checkpoint.generated),
        "random_key": checkpoint.random_key,
    }
    return json.dumps(body | {"hash": _hash(body)}, separators=(",", ":")).encode()


def decode(data: bytes, identity: str) -> Checkpoint:
    """Raises BadSegment."""
    try:
        body = json.loads(data)
        honest = body.pop("hash") == _hash(body)
        if not honest:
            raise BadSegment("is damaged: its contents differ from their hash")
        if (body["format"], body["version"], body["identity"]) != (FORMAT, VERSION, identity):
            raise BadSegment("is not what its name says, or of another version")
        return Checkpoint(identity, tuple(map(int, body["generated"])), str(body["random_key"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadSegment("is not a checkpoint") from None


def _hash(body: Mapping[str, object]) -> str:
    return hash_of(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())
