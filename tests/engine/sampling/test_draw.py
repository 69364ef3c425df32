"""Drawing by weight: the right cell for every uniform number, long arrays like short ones."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.engine.sampling.draw import _cell, draw

ALMOST_ONE = 1 - 2**-53


@pytest.mark.parametrize(
    ("uniform", "index"),
    [(0.0, 0), (0.2499, 0), (0.25, 1), (0.4999, 1), (0.5, 3), (0.9999, 3), (ALMOST_ONE, 3)],
)
def test_cells_by_hand(uniform: float, index: int) -> None:
    assert draw(np.array([1, 1, 0, 2, 0], dtype=np.float32), uniform) == index


@settings(deadline=None)
@given(
    weights=st.lists(st.sampled_from([0.0, 0.125, 1.0, 3.0]), min_size=1, max_size=1600).filter(any),
    uniform=st.floats(0, ALMOST_ONE),
)
def test_like_a_running_sum(weights: list[float], uniform: float) -> None:
    point = uniform * math.fsum(weights)
    expected = next(i for i, edge in enumerate(itertools.accumulate(weights)) if edge > point)
    assert draw(np.array(weights, dtype=np.float32), uniform) == expected


@pytest.mark.parametrize("size", [1, 511, 512, 513, 1024, 5003])
def test_never_a_token_without_weight(size: int) -> None:
    weights = np.zeros(size, dtype=np.float32)
    only = size // 2
    weights[only] = 1e-30
    for uniform in (0.0, 0.5, ALMOST_ONE):
        assert draw(weights, uniform) == only


def test_tiny_weights_add_up() -> None:
    # In float32 a running sum of 2**24 would swallow every further 1.
    weights = np.ones(2**18 + 1, dtype=np.float32)
    weights[0] = 2.0**24
    share_of_the_rest = 2**18 / (2**24 + 2**18)
    assert draw(weights, 1 - share_of_the_rest * 0.5) == pytest.approx(2**17, abs=2)


def test_rounding_past_the_end_finds_the_last_cell_with_weight() -> None:
    edges = np.array([1.0, 3.0, 3.0])
    assert _cell(edges, 3.0) == 1
    assert _cell(edges, 3.1) == 1
