"""Which number formats are chosen for which setting, device and CPU."""

import pytest
import torch

from stoker import machine, numerics
from stoker.numerics import Numerics, choose_numerics


def same(dtype):
    return Numerics(dtype, dtype, 0)


@pytest.mark.parametrize(
    ("wanted", "device", "kernels", "features", "expected"),
    [
        ("auto", "cpu", True, {"avx2"}, Numerics(torch.float32, torch.float16, 1)),
        ("auto", "cpu", False, {"avx2"}, same(torch.float32)),
        ("auto", "cpu", False, {"avx512_bf16"}, same(torch.bfloat16)),
        ("auto", "cpu", False, {"amx_bf16"}, same(torch.bfloat16)),
        ("auto", "cuda", True, set(), same(torch.bfloat16)),
        ("auto", "mps", False, set(), same(torch.float16)),
        ("float16", "cpu", True, {"avx512_bf16"}, same(torch.float16)),
        ("float32", "cpu", True, set(), same(torch.float32)),
        ("float32", "cuda", False, set(), same(torch.float32)),
    ],
)
def test_choice(wanted, device, kernels, features, expected, monkeypatch):
    monkeypatch.setattr(machine, "cpu_features", lambda: frozenset(features))
    monkeypatch.setattr(numerics.native, "library", lambda: object() if kernels else None)
    assert choose_numerics(wanted, device) == expected
