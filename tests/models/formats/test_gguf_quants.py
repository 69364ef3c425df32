"""Every block format against the gguf package's own dequantization: equal, to the last bit."""

from __future__ import annotations

from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from stoker.models.formats.gguf_file import GGML_TYPES
from stoker.models.formats.gguf_quants import FORMATS, to_quantized

# Where each format keeps its float16 numbers, bytes from the start of a block.
_HALVES = {
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82),
    "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
}  # fmt: skip
_BITS = {"Q4_0": 4, "Q4_1": 4, "Q2_K": 4, "Q3_K": 4, "Q4_K": 4}  # the others 8

Raw = npt.NDArray[np.uint8]


def random_blocks(kind: str, rows: int, columns: int, scale: float = 0.05, seed: int = 0) -> Raw:
    """Any bytes at all are codes; only the float16 numbers must be sensible."""
    _, block, nbytes = next(entry for entry in GGML_TYPES.values() if entry[0] == kind)
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (rows, columns // block, nbytes), dtype=np.uint8)
    for at in _HALVES[kind]:
        numbers = rng.standard_normal((rows, columns // block, 1)) * scale
        raw[..., at : at + 2] = numbers.astype(np.float16).view(np.uint8)
    return raw.reshape(rows, -1)


def expected(raw: Raw, kind: str) -> torch.Tensor:
    return torch.from_numpy(gguf.quants.dequantize(raw, Kind[kind]))


@pytest.mark.parametrize("kind", FORMATS)
def test_random_blocks(kind: str) -> None:
    raw = random_blocks(kind, rows=7, columns=1024)
    quantized = to_quantized(raw, kind, 1024)
    assert quantized.bits == _BITS.get(kind, 8)
    assert quantized.shape == (7, 1024)
    assert torch.equal(quantized.dequantize(), expected(raw, kind))


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if not kind.endswith("_K")])
def test_quantized_by_the_package(kind: str) -> None:
    weights = np.random.default_rng(1).standard_normal((5, 320)).astype(np.float32)
    raw = gguf.quants.quantize(weights, Kind[kind])
    quantized = to_quantized(raw, kind, 320)
    assert quantized.scales.dtype == torch.float16
    assert torch.equal(quantized.dequantize(), expected(raw, kind))


@pytest.mark.parametrize("kind", FORMATS)
def test_more_than_one_chunk(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.models.formats.gguf_quants._CHUNK_BYTES", 500)
    raw = random_blocks(kind, rows=9, columns=512, seed=2)
    quantized = to_quantized(raw, kind, 512)
    assert torch.equal(quantized.dequantize(), expected(raw, kind))


@pytest.mark.parametrize(("kind", "scale"), [("Q4_0", 60_000.0), ("Q5_0", 6_000.0), ("Q8_0", 600.0)])
def test_bias_beyond_float16(kind: str, scale: float) -> None:
    """-8 d, -16 d or -128 d overflows float16 although d does not: float32 is kept instead."""
    raw = random_blocks(kind, rows=3, columns=64)
    raw.reshape(3, -1, len(raw[0]) // 2)[:, 1, :2] = np.array([scale], np.float16).view(np.uint8)
    quantized = to_quantized(raw, kind, 64)
    assert quantized.scales.dtype == quantized.biases.dtype == torch.float32
    assert torch.equal(quantized.dequantize(), expected(raw, kind))


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0"])
def test_subnormal_scales(kind: str) -> None:
    raw = random_blocks(kind, rows=3, columns=64, scale=1e-6)
    quantized = to_quantized(raw, kind, 64)
    assert quantized.scales.dtype == torch.float16
    assert torch.equal(quantized.dequantize(), expected(raw, kind))


def test_extreme_codes() -> None:
    """Q6_K's largest products need all 24 bits of a float32."""
    raw = random_blocks("Q6_K", rows=2, columns=256)
    raw[:, 192:208] = np.array([127, -128] * 8, np.int8).view(np.uint8)
    raw[:, 208:210] = np.array([0.99951172], np.float16).view(np.uint8)
    assert torch.equal(to_quantized(raw, "Q6_K", 256).dequantize(), expected(raw, "Q6_K"))


def test_codes_of_neighbours_share_a_byte() -> None:
    """By hand: a Q4_0 block with scale 1 holds element i in the low half of byte i, element
    i + 16 in the high half."""
    values = np.arange(32) % 16
    packed = (values[:16] | (values[16:] << 4)).astype(np.uint8)
    raw: Any = np.concatenate([np.array([1.0], np.float16).view(np.uint8), packed])[None]
    quantized = to_quantized(raw, "Q4_0", 32)
    pairs = [values[2 * i] | (values[2 * i + 1] << 4) for i in range(16)]
    assert quantized.codes.tolist() == [pairs]
    assert quantized.dequantize().tolist() == [(values - 8.0).tolist()]
