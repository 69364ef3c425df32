"""stoker.namespace: whatever could change a number changes the fingerprint; nothing else does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from stoker import namespace as module
from stoker.kv.base import LayerSpec
from stoker.namespace import namespace_of, weights_digest
from stoker.numerics import Numerics


class Tokenizer:
    def __init__(self, text: str = "t") -> None:
        self.text = text

    def to_json(self) -> str:
        return self.text


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"weights" * 1000)
    return path


def fingerprint(weights: Path, label: str = "m", **changes: Any) -> str:
    facts = {
        "config": {"rope_theta": 1.0},
        "tokenizer": Tokenizer(),
        "layers": (LayerSpec(2, 64),),
        "numerics": Numerics(torch.float32, torch.float16, 1),
        "device": "cpu",
        "quantize": None,
        "max_context": None,
    } | changes
    return namespace_of(label, (weights,), digests=weights.parent / "kv", **facts).fingerprint


@pytest.mark.parametrize(
    "changes",
    [
        {"config": {"rope_theta": 2.0}},
        {"tokenizer": Tokenizer("u")},
        {"layers": (LayerSpec(2, 64, window=8),)},
        {"numerics": Numerics(torch.float32, torch.float32, 0)},
        {"numerics": Numerics(torch.float32, torch.float16, 2)},
        {"device": "cuda"},
        {"quantize": 4},
        {"max_context": 4096},
    ],
)
def test_every_fact_counts(weights: Path, changes: dict[str, Any]):
    assert fingerprint(weights, **changes) != fingerprint(weights)


def test_names_and_places_do_not_count(weights: Path, tmp_path: Path):
    copy = tmp_path / "elsewhere.gguf"
    copy.write_bytes(weights.read_bytes())
    assert fingerprint(copy, "other") == fingerprint(weights)


def test_a_fine_tune_of_the_same_size_and_header_is_another_model(weights: Path):
    before = fingerprint(weights)
    content = bytearray(weights.read_bytes())
    content[3500] ^= 1
    weights.write_bytes(content)
    assert fingerprint(weights) != before


def test_weights_are_read_once(weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = weights_digest((weights,), tmp_path / "kv")
    monkeypatch.setattr(module, "_file_digest", lambda path: pytest.fail("read again"))
    assert weights_digest((weights,), tmp_path / "kv") == first


@pytest.mark.parametrize("content", [b"", b"[1]", b"\xff", b'{"a": 3}'])
def test_a_damaged_list_of_digests_is_made_anew(weights: Path, tmp_path: Path, content: bytes):
    first = weights_digest((weights,), tmp_path / "kv")
    (tmp_path / "kv" / module.DIGESTS_NAME).write_bytes(content)
    assert weights_digest((weights,), tmp_path / "kv") == first


def test_weights_put_in_another_file_s_place_are_noticed(weights: Path, tmp_path: Path):
    """Same size and same modification time, as a careless copy makes them."""
    first = weights_digest((weights,), tmp_path / "kv")
    stat = weights.stat()
    other = tmp_path / "other"
    other.write_bytes(bytes(reversed(weights.read_bytes())))
    os.replace(other, weights)
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert weights_digest((weights,), tmp_path / "kv") != first
