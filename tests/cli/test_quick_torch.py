"""torch imported the quick way does what it does otherwise, tracing included."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import sys
from stoker.cli.quick_torch import import_torch

import_torch()
import torch

assert "torch._meta_registrations" not in sys.modules
assert torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3)).tolist() == [[3.0] * 4] * 2
assert torch.nn.functional.scaled_dot_product_attention(*torch.ones(3, 1, 2, 4)).shape == (1, 2, 4)

import torch._meta_registrations
from torch._subclasses.fake_tensor import FakeTensorMode

with FakeTensorMode():
    assert torch.linalg.cholesky(torch.empty(5, 5)).shape == (5, 5)  # a rule of that module
print("done")
"""


def test_a_process_that_imports_torch_quickly() -> None:
    ran = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True)
    assert ran.stdout.strip() == "done", ran.stderr
