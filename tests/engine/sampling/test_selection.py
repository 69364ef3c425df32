"""Selection against a plain sort; long arrays with few distinct values, so that ties abound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.engine.sampling.selection import _first_reaching, largest, nucleus


def ranked_ids(values: list[float]) -> list[int]:
    return sorted(range(len(values)), key=lambda i: (-values[i], i))


def nucleus_by_sorting(weights: list[float], mass: float) -> list[int]:
    """Fewest, largest first, ties by id; Python floats throughout."""
    total, held, ids = sum(weights), 0.0, []
    for i in ranked_ids(weights):
        if held >= mass * total:
            break
        held += weights[i]
        ids.append(i)
    return sorted(ids)


@settings(deadline=None)
@given(
    values=st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=300),
    count=st.integers(1, 320),
)
def test_largest_of_a_short_array(values: list[float], count: int) -> None:
    expected = sorted(ranked_ids(values)[:count])
    assert largest(np.array(values, dtype=np.float32), count).tolist() == expected


@pytest.mark.parametrize("size", [4096, 5003])
@pytest.mark.parametrize("count", [1, 7, 40, 100, 1000, 4095])
@pytest.mark.parametrize("distinct", [1, 5, 10**6])
def test_largest_of_a_long_array(size: int, count: int, distinct: int) -> None:
    values = np.random.default_rng(size + count).integers(0, distinct, size).astype(np.float32)
    expected = sorted(ranked_ids(values.tolist())[:count])
    assert largest(values, count).tolist() == expected


def test_largest_with_masked_values() -> None:
    values = np.full(5000, -np.inf, dtype=np.float32)
    values[[4999, 17]] = 1, 2
    assert largest(values, 2).tolist() == [17, 4999]
    assert largest(values, 3).tolist() == [0, 17, 4999]


# Powers of two add up exactly, so both sides agree about every boundary.
@settings(deadline=None)
@given(
    exponents=st.lists(st.integers(-20, 0), min_size=1, max_size=200),
    mass=st.floats(0.001, 0.999),
)
def test_nucleus_of_a_short_array(exponents: list[int], mass: float) -> None:
    weights = [2.0**e for e in exponents]
    expected = nucleus_by_sorting(weights, mass)
    assert nucleus(np.array(weights, dtype=np.float32), mass)[0].tolist() == expected


@pytest.mark.parametrize("lowest", [0, -3, -40])
@pytest.mark.parametrize("mass", [0.01, 0.5, 0.9, 0.999])
def test_nucleus_of_a_long_array(lowest: int, mass: float) -> None:
    exponents = np.random.default_rng(-lowest).integers(lowest, 0, 5003, endpoint=True)
    weights = np.exp2(exponents).astype(np.float32)
    assert nucleus(weights, mass)[0].tolist() == nucleus_by_sorting(weights.tolist(), mass)


@pytest.mark.parametrize("deviation", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("mass", [0.3, 0.9, 0.99])
def test_nucleus_of_a_smooth_distribution(deviation: float, mass: float) -> None:
    logits = np.random.default_rng(1).normal(0, deviation, 20_000)
    weights = np.exp(logits - logits.max()).astype(np.float32)
    assert nucleus(weights, mass)[0].tolist() == nucleus_by_sorting(weights.tolist(), mass)


def test_nucleus_is_decided_below_the_mean_when_the_top_is_light() -> None:
    weights = np.full(10_000, 0.001, dtype=np.float32)
    weights[5] = 1.0
    kept = nucleus(weights, 0.5)[0]  # total 11; 5.5 needs token 5 and 4500 of the others
    assert 4500 <= len(kept) - 1 <= 4501
    assert kept.tolist() == list(range(len(kept)))


@pytest.mark.parametrize("size", [10, 5000])
def test_nucleus_of_nearly_everything_survives_rounding(size: int) -> None:
    weights = np.random.default_rng(0).random(size).astype(np.float32)
    kept = nucleus(weights, 1 - 2**-53)[0]
    assert size - 1 <= len(kept) <= size


def test_nucleus_tells_what_it_holds_to_spare() -> None:
    assert nucleus(np.array([0.25, 1.0, 0.5, 0.25], dtype=np.float32), 0.625)[1] == 0.25  # 1.5 of 1.25


def test_rounding_past_the_total_takes_all_that_weighs_something() -> None:
    running_sum = np.array([1.0, 3.0, 3.0])
    assert [_first_reaching(running_sum, amount) for amount in (0.5, 1.0, 2.0, 3.0, 3.1)] == [0, 0, 1, 1, 1]
