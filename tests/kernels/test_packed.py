"""Native quantized products against the dense matrix they stand for."""

import pytest
import torch

from stoker.kernels import native
from stoker.kernels.linear import pack
from stoker.models.weights import QuantizedTensor

pytestmark = pytest.mark.skipif(native.library() is None, reason="no native kernels were built")


def random_matrix(rows, columns, bits, group, scale_dtype):
    generator = torch.Generator().manual_seed(rows * columns + bits + group)
    codes = torch.randint(0, 256, (rows, columns * bits // 8), dtype=torch.uint8, generator=generator)
    scales = (torch.rand(rows, columns // group, generator=generator) * 0.02 + 0.001).to(scale_dtype)
    biases = (-scales.float() * (2 ** (bits - 1))).to(scale_dtype)
    return QuantizedTensor(codes, scales, biases, bits, group)


CASES = [
    (bits, group, dtype)
    for bits in (4, 8)
    for group in (16, 32, 64, 128)
    for dtype in (torch.float16, torch.bfloat16, torch.float32)
]


@pytest.mark.parametrize(("bits", "group", "dtype"), CASES)
@pytest.mark.parametrize("rows", [1, 7, 16, 40])
def test_exact_products_equal_the_dequantized_matrix(bits, group, dtype, rows):
    weight = random_matrix(rows, 256, bits, group, dtype)
    dense = weight.dequantize().double()
    packed = pack(weight, torch.float32, int8_planes=0)
    for tokens in (1, 2, 3, 8, 9, 21):
        x = torch.randn(tokens, 256)
        torch.testing.assert_close(packed(x).double(), x.double() @ dense.T, rtol=1e-5, atol=1e-4)
    ids = torch.tensor([0, rows - 1, rows // 2])
    # Not bit for bit: the native code multiplies and adds with one rounding.
    torch.testing.assert_close(packed.rows(ids), weight.dequantize()[ids], rtol=1e-6, atol=1e-7)


def round_to_int8(x: torch.Tensor, block: int) -> torch.Tensor:
    """The rounding the fast kernels document, block by block. In float32 up to the rounding itself, so
    that a value half way between two codes goes the same way."""
    blocks = x.reshape(x.shape[0], -1, block)
    top = blocks.abs().amax(-1, keepdim=True)
    return ((blocks * (127 / top)).round().double() * (top / 127).double()).reshape(x.shape)


@pytest.mark.parametrize(("bits", "group", "dtype"), CASES)
def test_int8_products_equal_products_of_rounded_activations(bits, group, dtype):
    weight = random_matrix(40, 256, bits, group, dtype)
    dense = weight.dequantize().double()
    packed = pack(weight, torch.float32, int8_planes=1)
    for tokens in (1, 2, 3, 4, 5, 8, 9):
        x = torch.randn(tokens, 256)
        expected = round_to_int8(x, min(32, group)) @ dense.T
        torch.testing.assert_close(packed(x).double(), expected, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("group", [32, 128])
@pytest.mark.parametrize("planes", [1, 2])
def test_extreme_codes_and_activations_do_not_overflow(bits, group, planes):
    codes = torch.full((16, 256 * bits // 8), 255, dtype=torch.uint8)
    groups = (16, 256 // group)
    weight = QuantizedTensor(codes, torch.ones(groups), torch.zeros(groups), bits, group)
    packed = pack(weight, torch.float32, int8_planes=planes)
    for sign in (1.0, -1.0):
        out = packed(torch.full((4, 256), sign * 127))
        torch.testing.assert_close(
            out, torch.full((4, 16), sign * 127 * 256 * (2**bits - 1)), rtol=1e-6, atol=0
        )


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("group", [16, 32, 64, 128])
@pytest.mark.parametrize("rows", [7, 64])
def test_two_planes_are_sixteen_bits(bits, group, rows):
    weight = random_matrix(rows, 256, bits, group, torch.float16)
    for tokens in (1, 2, 3, 4, 5, 12):
        x = torch.randn(tokens, 256)
        exact = x.double() @ weight.dequantize().double().T
        one = (pack(weight, torch.float32, int8_planes=1)(x) - exact).abs().mean()
        two = (pack(weight, torch.float32, int8_planes=2)(x) - exact).abs().mean()
        assert two < one / 50


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("planes", [0, 1, 2])
def test_rows_do_not_depend_on_their_neighbours(bits, planes):
    packed = pack(random_matrix(48, 256, bits, 32, torch.float16), torch.float32, int8_planes=planes)
    x = torch.randn(13, 256)
    together = packed(x)
    for i in range(13):
        assert torch.equal(packed(x[i : i + 1])[0], together[i])


def test_zero_rows_and_zero_activations():
    packed = pack(random_matrix(20, 64, 4, 32, torch.float32), torch.float32, int8_planes=1)
    assert packed(torch.empty(0, 64)).shape == (0, 20)
    assert torch.equal(packed(torch.zeros(2, 64)), torch.zeros(2, 20))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 8), (16, 24), (40, 100), (8200, 16)])
def test_dense_products_equal_those_of_the_matrix(dtype, shape):
    weight = torch.randn(shape).to(dtype)
    packed = pack(weight, torch.float32)
    assert packed.nbytes <= weight.nbytes + 15 * shape[1] * dtype.itemsize
    for tokens in (1, 2, 3, 8, 19):
        x = torch.randn(tokens, shape[1])
        torch.testing.assert_close(packed(x).double(), x.double() @ weight.double().T, rtol=1e-5, atol=1e-4)
    ids = torch.tensor([shape[0] - 1, 0])
    assert torch.equal(packed.rows(ids), weight[ids].float())


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("planes", [0, 1, 2])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_is_not_rounded_away(bits, planes, bad):
    """A damaged model must end in an error, not in a fluent answer."""
    packed = pack(random_matrix(16, 64, bits, 32, torch.float16), torch.float32, int8_planes=planes)
    x = torch.randn(3, 64)
    x[1, 40] = bad
    out = packed(x)
    assert not out[1].isfinite().any()
    assert out[[0, 2]].isfinite().all()
