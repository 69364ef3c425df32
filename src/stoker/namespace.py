"""Which runs may use each other's keys and values: the facts that decide what a model computes.

Two runs share a namespace of the disk cache only when all of these are equal. Weights are told apart
by their contents, not by their names: fine-tunes of one model have files of the same size and header.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from stoker import __version__
from stoker.cache.disk import Namespace
from stoker.cache.disk import folder as folders
from stoker.kernels import native
from stoker.kv.base import LayerSpec
from stoker.kv.blocks import BLOCK_SIZE
from stoker.numerics import Numerics

DIGESTS_NAME = "weights.json"  # digests of weight files, so that they are read once and not at each start
_READ_BYTES = 4 * 2**20


class TokenizerLike(Protocol):
    def to_json(self) -> str: ...


def namespace_of(
    label: str,
    weights: Sequence[Path],
    config: Mapping[str, Any],
    tokenizer: TokenizerLike,
    layers: Sequence[LayerSpec],
    numerics: Numerics,
    *,
    device: str,
    quantize: int | None,
    max_context: int | None,  # it decides between the factors of LongRoPE
    digests: Path,  # folder where digests of weight files are remembered
) -> Namespace:
    """Reads whole weight files the first time. Raises OSError."""
    return Namespace(
        {
            "weights": weights_digest(weights, digests),
            "config": _digest(json.dumps(config, sort_keys=True, default=str)),
            "tokenizer": _digest(tokenizer.to_json()),
            "kv": {
                "block_size": BLOCK_SIZE,
                "dtype": str(numerics.kv),
                "layers": _digest(json.dumps([asdict(layer) for layer in layers])),
            },
            "numerics": str(numerics),
            "quantize": quantize,
            "max_context": max_context,
            "device": f"{device} {platform.machine()}",
            "kernels": native.describe() if device == "cpu" else "torch",
            "adapters": [],
            "version": __version__,
        },
        label,
    )


def weights_digest(files: Sequence[Path], digests: Path) -> str:
    """A digest of the contents of all files, in order."""
    known = _read_known(digests / DIGESTS_NAME)
    found: dict[str, str] = {}
    for file in files:
        stat = file.stat()
        # A file that was changed in place or replaced shows it in one of these.
        identity = f"{file.resolve()} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"
        found[identity] = known.get(identity) or _file_digest(file)
    if not found.keys() <= known.keys():
        with contextlib.suppress(OSError):  # then they are computed again next time
            digests.mkdir(parents=True, exist_ok=True)
            with folders.writing(digests, DIGESTS_NAME) as out:
                out.write(json.dumps(known | found, indent=1).encode())
    return _digest(" ".join(found.values()))


def _read_known(path: Path) -> dict[str, str]:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(known, dict):
        return {}
    return {key: value for key, value in known.items() if isinstance(value, str)}


def _file_digest(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=32)
    buffer = bytearray(_READ_BYTES)
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(buffer):
            digest.update(memoryview(buffer)[:size])
    return digest.hexdigest()


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
