"""Log-probabilities against torch.log_softmax in float64, and by hand at the extremes."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core import Alternative
from stoker.engine.sampling.logprobs import LOWEST, Logprobs


def logprobs_of(logits: list[float]) -> Logprobs:
    row = np.array(logits, dtype=np.float32)
    return Logprobs(row, np.empty_like(row))


@settings(deadline=None)
@given(st.lists(st.floats(-40, 40, width=32), min_size=1, max_size=200))
def test_like_log_softmax(logits: list[float]) -> None:
    expected = torch.tensor(logits, dtype=torch.float64).log_softmax(0).tolist()
    found = logprobs_of(logits)
    assert [found.of(i) for i in range(len(logits))] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("count", [1, 5, 20])
def test_top_of_a_large_vocabulary(count: int) -> None:
    logits = torch.randn(50_000, generator=torch.Generator().manual_seed(4)) * 3
    values, ids = logits.double().log_softmax(0).topk(count)
    found = logprobs_of(logits.tolist()).top(count)
    assert [alternative.token_id for alternative in found] == ids.tolist()
    assert [alternative.logprob for alternative in found] == pytest.approx(values.tolist(), abs=1e-5)


def test_equal_tokens_in_order_of_their_ids() -> None:
    third = pytest.approx(-math.log(3))
    found = logprobs_of([0.0, 0.0, 0.0])
    assert found.top(2) == (Alternative(0, third), Alternative(1, third))
    assert found.top(20) == (Alternative(0, third), Alternative(1, third), Alternative(2, third))
    assert found.top(0) == ()


def test_impossible_tokens_get_the_lowest_finite_value() -> None:
    found = logprobs_of([0.0, -math.inf, -1e30])
    assert [found.of(i) for i in range(3)] == [0.0, LOWEST, LOWEST]


def test_two_certain_tokens_share_the_probability() -> None:
    found = logprobs_of([1e30, 1e30, 0.0])
    assert [found.of(i) for i in range(3)] == pytest.approx([-math.log(2), -math.log(2), LOWEST])


def test_never_above_zero() -> None:
    assert all(logprobs_of([100.0, 0.0]).of(i) <= 0 for i in range(2))
