"""Quantizing on load: the grid worked out by hand, the error bound, what is quantized and what not."""

from __future__ import annotations

import pytest
import torch

from stoker.models.quantize import group_size_for, quantize


def test_a_group_worked_out_by_hand() -> None:
    # 32 columns: -1.2 once, 0.3 once, 0 elsewhere. The span is 1.5, so the step is 1.5 / 15 = 0.1;
    # -1.2 is the end further from zero and becomes code 0; zero is code 12, 0.3 is code 15.
    weight = torch.zeros(1, 32)
    weight[0, 0], weight[0, 5] = -1.2, 0.3
    packed = quantize(weight, 4, 32, torch.float32)
    assert packed.shape == (1, 32)
    assert packed.scales.tolist() == [[pytest.approx(0.1)]]
    assert packed.biases.tolist() == [[pytest.approx(-1.2)]]
    # Low nibble first: columns 0 and 1 are 0 and 12, columns 4 and 5 are 12 and 15.
    assert packed.codes.tolist() == [[12 << 4, 204, 12 | 15 << 4, *[204] * 13]]
    torch.testing.assert_close(packed.dequantize(), weight)


def test_the_step_is_stretched_until_zero_is_on_the_grid() -> None:
    # Span 1.4, step 1.4 / 255. 1.0 is the further end: zero lies round(1 / step) = 182 codes
    # below it, so the step becomes 1 / 182, counted downwards.
    weight = torch.zeros(1, 32)
    weight[0, 0], weight[0, 1] = 1.0, -0.4
    packed = quantize(weight, 8, 32, torch.float32)
    assert packed.scales.item() == pytest.approx(-1 / 182)
    assert packed.biases.item() == 1.0
    assert packed.codes[0, :3].tolist() == [0, 255, 182]
    assert packed.dequantize()[0, 2].item() == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("scale_dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("bits", "group_size"), [(4, 64), (4, 32), (8, 64), (8, 32)])
def test_error_is_at_most_half_a_step(bits: int, group_size: int, scale_dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    weight = torch.randn(40, 192) * torch.logspace(-3, 1, 40)[:, None]
    packed = quantize(weight, bits, group_size, scale_dtype)
    assert packed.scales.dtype == packed.biases.dtype == scale_dtype
    error = (packed.dequantize() - weight).abs().reshape(40, -1, group_size)
    groups = weight.reshape(40, -1, group_size)
    step = (groups.amax(-1) - groups.amin(-1)) / (2**bits - 1)
    # Stretching the grid to hit zero makes a step up to 1/14 longer at 4 bits (zero is at least 7.5
    # codes from the further end) and cuts off at most half a step at the nearer end.
    rounding = torch.finfo(scale_dtype).eps * groups.abs().amax(-1) * 2
    assert (error <= (step * 1.08 + rounding)[..., None]).all()
    assert (error <= (step / 2 * 1.08 + rounding)[..., None]).float().mean() > 0.99


def test_large_matrices_are_worked_on_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    weight = torch.randn(10, 64)
    at_once = quantize(weight, 4)
    monkeypatch.setattr("stoker.models.quantize._BLOCK_ELEMENTS", 3 * 64)
    in_blocks = quantize(weight, 4)
    assert torch.equal(at_once.codes, in_blocks.codes)
    assert torch.equal(at_once.scales, in_blocks.scales)
    assert torch.equal(at_once.biases, in_blocks.biases)


def test_constant_groups_keep_their_value() -> None:
    weight = torch.cat((torch.zeros(1, 32), torch.full((1, 32), 0.37), torch.full((1, 32), -5.0)))
    torch.testing.assert_close(quantize(weight, 4, 32, torch.float32).dequantize(), weight)


def test_values_beyond_half_precision_get_wider_scales() -> None:
    weight = torch.zeros(2, 32)
    weight[1, 0] = 1e6
    packed = quantize(weight, 4, 32)
    assert packed.scales.dtype == packed.biases.dtype == torch.float32
    torch.testing.assert_close(packed.dequantize(), weight, rtol=0, atol=1)


@pytest.mark.parametrize(("columns", "size"), [(576, 64), (96, 32), (128, 64), (80, None)])
def test_group_size(columns: int, size: int | None) -> None:
    assert group_size_for(columns) == size
