"""Quantizing while packing: the same bytes as `quantize` and then `store`."""

import pytest
import torch

from stoker.kernels import native
from stoker.kernels.packed import PackedQuantizedLinear
from stoker.kernels.quantized import ScaleOverflow
from stoker.kernels.source import QuantizedForm
from stoker.models.quantize import quantize

pytestmark = pytest.mark.skipif(native.library() is None, reason="no native kernels were built")


def empty(shape: tuple[int, int], group_size: int) -> PackedQuantizedLinear:
    return PackedQuantizedLinear(shape, QuantizedForm(8, group_size, torch.float16), planes=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("group_size", [32, 64])
@pytest.mark.parametrize("rows", [1, 16, 50])
def test_one_pass_is_two(rows: int, group_size: int, dtype: torch.dtype) -> None:
    torch.manual_seed(rows)
    weight = torch.randn(rows, 192).to(dtype)
    weight[0, :64] = 0  # a group of equal values, and of nothing
    weight[-1, 64:128] = 0.7
    weight[0, 128:] = weight[0, 128:].abs()  # zero at the edge
    one, two = empty((rows, 192), group_size), empty((rows, 192), group_size)
    one.store_quantizing(0, weight)
    two.store(0, quantize(weight, 8, group_size))
    assert torch.equal(one.data, two.data)


def test_blocks_of_rows() -> None:
    weight = torch.randn(40, 64).half()
    whole, parts = empty((40, 64), 64), empty((40, 64), 64)
    whole.store_quantizing(0, weight)
    parts.store_quantizing(32, weight[32:])
    parts.store_quantizing(0, weight[:32])
    assert torch.equal(whole.data, parts.data)


@pytest.mark.parametrize("value", [7e4, -7e4, float("inf"), float("nan")])
def test_what_float16_cannot_hold_is_refused(value: float) -> None:
    weight = torch.randn(3, 64)
    weight[1, 5] = value
    with pytest.raises(ScaleOverflow):
        empty((3, 64), 64).store_quantizing(0, weight)
