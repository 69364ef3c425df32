"""Matrices read block by block hold what the whole ones hold."""

from __future__ import annotations

import pytest
import torch

from stoker.kernels.fill import Filler
from stoker.kernels.linear import PackedLinear, allocate, pack
from stoker.kernels.quantized import QuantizedTensor, Weight
from stoker.kernels.source import InMemory, MatrixSource, QuantizedForm, stack

COLUMNS = 64


def quantized(rows: int, seed: int = 0) -> QuantizedTensor:
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 256, (rows, COLUMNS // 2), dtype=torch.uint8, generator=generator)
    scales, biases = torch.rand(2, rows, COLUMNS // 32, generator=generator).half()
    return QuantizedTensor(codes, scales, biases, 4, 32)


def dense(weight: Weight) -> torch.Tensor:
    return weight if isinstance(weight, torch.Tensor) else weight.dequantize()


def filled(source: MatrixSource, dtype: torch.dtype = torch.float32) -> PackedLinear:
    packed = allocate(source.shape, source.form, dtype)
    with Filler(2) as filler:
        filler.add(packed, source)
        filler.finish()
    return packed


def all_rows(packed: PackedLinear) -> torch.Tensor:
    return packed.rows(torch.arange(packed.out_features))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.kernels.fill._BLOCK_ELEMENTS", 2048)


# With float32 activations the native kernels where there are some, with bfloat16 torch.
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 16, 333])
def test_blocks_make_the_whole(dtype: torch.dtype, rows: int) -> None:
    weight = quantized(rows)
    torch.testing.assert_close(all_rows(filled(InMemory(weight), dtype)), weight.dequantize(dtype))
    plain = torch.randn(rows, COLUMNS).bfloat16()
    assert torch.equal(all_rows(filled(InMemory(plain), dtype)), plain.to(dtype))


@pytest.mark.parametrize("sizes", [(48, 16, 16), (5, 20, 333, 1), (7,)])
def test_stacked_matrices_are_one(sizes: tuple[int, ...]) -> None:
    parts = [quantized(rows, seed=rows) for rows in sizes]
    source = stack([InMemory(part) for part in parts])
    assert source is not None
    assert source.shape == (sum(sizes), COLUMNS)
    expected = torch.cat([part.dequantize() for part in parts])
    torch.testing.assert_close(all_rows(filled(source)), expected)
    for first, last in [(0, 1), (3, 9), (0, sum(sizes))]:
        assert torch.equal(dense(source.read(first, last)), expected[first:last])


def test_different_forms_do_not_stack() -> None:
    plain = torch.randn(16, COLUMNS)
    assert stack([InMemory(quantized(16)), InMemory(plain)]) is None
    assert stack([InMemory(plain), InMemory(plain.bfloat16())]) is None


class LateOverflow:
    """Says float16, and finds a scale beyond it in its last rows."""

    def __init__(self, weight: QuantizedTensor) -> None:
        self.shape = weight.shape
        self.form = QuantizedForm(4, 32, torch.float16)
        self.weight = weight

    def read(self, first: int, last: int) -> QuantizedTensor:
        part = InMemory(self.weight).read(first, last)
        assert isinstance(part, QuantizedTensor)
        fits = last < self.shape[0]
        dtype = torch.float16 if fits else torch.float32
        return QuantizedTensor(part.codes, part.scales.to(dtype), part.biases.to(dtype), 4, 32)

    def release(self, first: int, last: int) -> None:
        pass


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scales_too_large_for_float16_widen_the_matrix(dtype: torch.dtype) -> None:
    weight = quantized(300)
    scales = weight.scales.float()
    scales[-1] = 1e6
    weight = QuantizedTensor(weight.codes, scales, weight.biases.float(), 4, 32)
    packed = filled(LateOverflow(weight), dtype)
    torch.testing.assert_close(all_rows(packed), weight.dequantize(dtype))
    assert packed.nbytes == pack(weight, dtype).nbytes


class Broken(LateOverflow):
    def read(self, first: int, last: int) -> QuantizedTensor:
        raise OSError("the disk went away")


def test_what_a_source_raises_reaches_the_caller() -> None:
    with pytest.raises(OSError, match="went away"):
        filled(Broken(quantized(300)))
