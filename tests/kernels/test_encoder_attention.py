"""Attention of encoders against the definition in float64."""

from __future__ import annotations

import pytest
import torch

from stoker.kernels import native
from stoker.kernels.encoder_attention import attend_sequences, can_attend

pytestmark = pytest.mark.skipif(native.library() is None, reason="no native kernels were built")


def by_definition(q, k, v, sequences, scale):
    out = torch.zeros_like(q, dtype=torch.float64)
    for first, length in sequences:
        span = slice(first, first + length)
        scores = torch.einsum("thd,shd->hts", q[span].double(), k[span].double()) * scale
        out[span] = torch.einsum("hts,shd->thd", scores.softmax(-1), v[span].double())
    return out


@pytest.mark.parametrize("head_dim", [16, 64, 128])
@pytest.mark.parametrize("lengths", [[1], [7, 7, 16, 17], [49, 1, 300], [600]])
def test_equals_the_definition(lengths, head_dim):
    total, heads = sum(lengths), 3
    torch.manual_seed(total + head_dim)
    qkv = torch.randn(total, 3, heads, head_dim)
    sequences, first = [], 0
    for length in lengths:
        sequences.append((first, length))
        first += length
    q, k, v = qkv.unbind(1)
    scale = head_dim**-0.5
    error = attend_sequences(q, k, v, sequences, scale=scale) - by_definition(q, k, v, sequences, scale)
    assert error.abs().max() < 3e-3
    assert error.norm() < 1e-3 * by_definition(q, k, v, sequences, scale).norm()


def test_many_small_weights_beside_a_large_one_are_not_rounded_away():
    """One key takes half of the weight, two thousand share the other half."""
    q, k, v = torch.ones(2001, 1, 16), torch.zeros(2001, 1, 16), torch.ones(2001, 1, 16)
    k[0] = torch.log(torch.tensor(2000.0)) / 16
    v[0] = -1.0
    out = attend_sequences(q, k, v, [(0, 2001)], scale=1.0)
    assert out.abs().max() < 5e-3


def test_large_scores_neither_overflow_nor_vanish():
    q, k = torch.full((20, 1, 16), 30.0), torch.zeros(20, 1, 16)
    k[3] = 40.0  # its score is 19,200, the others' are zero
    v = torch.arange(20.0)[:, None, None].expand(20, 1, 16).contiguous()
    out = attend_sequences(q, k, v, [(0, 20)], scale=1.0)
    torch.testing.assert_close(out, torch.full_like(out, 3.0), rtol=0, atol=19 / 8190)


def test_a_sequence_does_not_depend_on_its_neighbours():
    q, k, v = torch.randn(3, 90, 2, 32).unbind(0)
    together = attend_sequences(q, k, v, [(0, 50), (50, 40)], scale=0.2)
    alone = attend_sequences(q[50:], k[50:], v[50:], [(0, 40)], scale=0.2)
    assert torch.equal(together[50:], alone)


@pytest.mark.parametrize("spoiled", range(3))
def test_what_is_no_number_stays_in_its_sequence(spoiled):
    states = torch.randn(3, 60, 2, 32)
    states[spoiled, 10] = float("nan")
    out = attend_sequences(*states.unbind(0), [(0, 30), (30, 30)], scale=0.2)
    assert out[:30].isnan().any()
    assert out[30:].isfinite().all()


def test_threads_that_help_each_other_change_nothing():
    q, k, v = torch.randn(3, 1300, 3, 32, generator=torch.Generator().manual_seed(4)).unbind(0)
    sequences = [(0, 1000), (1000, 300)]
    before = native._num_threads
    results = []
    for num_threads in (1, 4):
        native.set_num_threads(num_threads)
        results.append(attend_sequences(q, k, v, sequences, scale=0.2))
    native.set_num_threads(before)
    assert torch.equal(*results)


def test_what_it_takes():
    cpu = torch.device("cpu")
    assert can_attend(64, cpu)
    assert not can_attend(24, cpu)
    assert not can_attend(144, cpu)
    assert not can_attend(64, torch.device("meta"))
