"""Layers of encoders against float64, and how far the integers may be off."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F

from stoker.kernels import native
from stoker.kernels.activations import FUNCTIONS
from stoker.kernels.affine import DenseAffine, Int16Affine, affine
from stoker.kernels.source import InMemory

integers = pytest.mark.skipif(native.library() is None, reason="no native kernels were built")


def error(ours: torch.Tensor, exact: torch.Tensor) -> float:
    return float((ours.double() - exact).norm() / exact.norm())


@integers
@pytest.mark.parametrize("on_team", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 5, 6, 13, 400])
@pytest.mark.parametrize("shape", [(1, 1), (16, 128), (24, 100), (50, 300)])
def test_integer_products_are_off_in_the_fourth_digit(shape, rows, on_team):
    torch.manual_seed(rows)
    weight, bias, x = torch.randn(shape), torch.randn(shape[0]), torch.randn(rows, shape[1])
    layer = Int16Affine(weight, bias, on_team=on_team)
    exact = x.double() @ weight.double().T + bias.double()
    # Both factors are rounded to 13 bits of the largest of a row or block: at most 1/8190 of it each.
    bound = (
        x.abs().amax(1)[:, None] * weight.abs().sum(1) + weight.abs().amax(1) * x.abs().sum(1)[:, None]
    ) / 8190
    assert ((layer(x).double() - exact).abs() <= bound * 1.01 + 1e-5).all()


@integers
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_weights_and_a_source_of_them_give_what_their_float32_gives(dtype):
    weight, x = torch.randn(2000, 600).to(dtype), torch.randn(3, 600)  # two blocks of a source
    wanted = Int16Affine(weight.float(), None)(x)
    assert torch.equal(Int16Affine(weight, None)(x), wanted)
    assert torch.equal(Int16Affine(InMemory(weight), None)(x), wanted)


@integers
@pytest.mark.parametrize("name", [None, *FUNCTIONS])
def test_activation_and_residual(name):
    weight, bias, x = torch.randn(40, 64), torch.randn(40), torch.randn(9, 64)
    residual = torch.randn(9, 40)
    function = FUNCTIONS[name] if name else None
    plain = x.double() @ weight.double().T + bias.double()
    wanted = (function(plain) if function else plain) + residual.double()
    for layer in (Int16Affine(weight, bias), DenseAffine(weight, bias, torch.float32)):
        assert error(layer(x, activation=function, residual=residual), wanted) < 5e-4


@integers
def test_gelu_is_the_exact_one():
    values = torch.linspace(-9, 9, 4095)[:, None].contiguous()  # one code each: nothing is rounded
    layer = Int16Affine(torch.ones(1, 1), None)
    plain = layer(values)
    assert (layer(values, activation=F.gelu).double() - F.gelu(plain.double())).abs().max() < 2e-6


@integers
def test_extreme_codes_do_not_overflow():
    weight = torch.full((16, 1024), -3.0)
    out = Int16Affine(weight, None)(torch.full((7, 1024), 5.0))
    torch.testing.assert_close(out, torch.full((7, 16), -15.0 * 1024), rtol=1e-5, atol=0)


@integers
def test_rows_do_not_depend_on_their_neighbours_nor_on_threads():
    layer = Int16Affine(torch.randn(70, 200), torch.randn(70))
    x = torch.randn(64, 200)
    together = layer(x)
    assert all(torch.equal(layer(x[i : i + 1])[0], together[i]) for i in range(64))
    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(out, together) for out in pool.map(lambda _: layer(x), range(20)))


@integers
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_is_not_rounded_away(bad):
    x = torch.randn(8, 64)
    x[2, 3] = bad
    out = Int16Affine(torch.randn(20, 64), None)(x)
    assert not out[2].isfinite().any()
    assert out[[0, 1, 3, 4, 5, 6, 7]].isfinite().all()


def test_no_rows_and_zeros():
    layer = affine(torch.randn(5, 30), None, torch.int16)
    assert layer(torch.empty(0, 30)).shape == (0, 5)
    assert torch.equal(layer(torch.zeros(2, 30)), torch.zeros(2, 5))


def test_without_native_kernels_products_are_in_float32(monkeypatch):
    monkeypatch.setattr(native, "library", lambda: None)
    weight, x = torch.randn(5, 30), torch.randn(3, 30)
    layer = affine(weight, None, torch.int16)
    assert isinstance(layer, DenseAffine)
    torch.testing.assert_close(layer(x), x @ weight.T)
