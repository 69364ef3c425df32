"""Each filter, alone and combined, against a slow reference in plain Python."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stoker.core import SamplingParams
from stoker.engine.sampling.filters import Candidates, candidates, exclude_top_choices

# Steps of a quarter, so that float32 and float64 agree on what is a tie.
LOGITS = st.lists(st.integers(-30, 30).map(lambda n: n / 4), min_size=1, max_size=40)
NOTHING = np.array([], dtype=np.int64)


def distribution(kept: Candidates) -> dict[int, float]:
    total = float(kept.weights.sum(dtype=np.float64))
    return {kept.token_at(i): float(weight) / total for i, weight in enumerate(kept.weights)}


def filtered(logits: list[float], params: SamplingParams) -> Candidates:
    row = np.array(logits, dtype=np.float32)
    before = row.copy()
    kept = candidates(row, max(logits), params, np.empty_like(row))
    assert np.array_equal(row, before)
    if kept.ids is not None:
        assert all(a < b for a, b in pairwise(kept.ids.tolist()))
    return kept


def normalised(probs: dict[int, float]) -> dict[int, float]:
    total = math.fsum(probs.values())
    return {token_id: p / total for token_id, p in probs.items()}


def reference(logits: list[float], params: SamplingParams) -> dict[int, float]:
    """Sort, then filter after filter with renormalisation between."""
    peak = max(logits)
    probs = normalised({i: math.exp((x - peak) / params.temperature) for i, x in enumerate(logits)})
    ranked = sorted(probs, key=lambda i: (-logits[i], i))
    if params.top_k:
        ranked = ranked[: params.top_k]
        probs = normalised({i: probs[i] for i in ranked})
    if 0 < params.top_p < 1:
        held, count = 0.0, 0
        while held < params.top_p and count < len(ranked):
            held += probs[ranked[count]]
            count += 1
            assume(abs(held - params.top_p) > 1e-5)
        ranked = ranked[:count]
        probs = normalised({i: probs[i] for i in ranked})
    if params.min_p:
        ratios = {i: probs[i] / probs[ranked[0]] for i in ranked}
        assume(all(abs(ratio - params.min_p) > 1e-5 for ratio in ratios.values()))
        probs = normalised({i: probs[i] for i in ranked if ratios[i] >= params.min_p})
    return probs


def xtc_reference(probs: dict[int, float], threshold: float, exempt: set[int]) -> dict[int, float]:
    assume(all(abs(p - threshold) > 1e-5 for p in probs.values()))
    above = [p for p in probs.values() if p > threshold]
    if len(above) < 2:
        return probs
    # Equal weights give equal probabilities up to rounding.
    return normalised(
        {i: p for i, p in probs.items() if p < min(above) * (1 + 1e-5) or i in exempt},
    )


@settings(max_examples=200, deadline=None)
@given(
    logits=LOGITS,
    temperature=st.sampled_from([0.3, 0.7, 1.0, 2.5]),
    top_k=st.sampled_from([0, 0, 1, 2, 5, 39, 40, 10**9]),
    top_p=st.sampled_from([0.0, 0.0, 0.1, 0.5, 0.9, 0.99, 1.0]),
    min_p=st.sampled_from([0.0, 0.0, 0.01, 0.1, 0.7]),
)
def test_filters_like_the_reference(
    logits: list[float], temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    assert distribution(filtered(logits, params)) == pytest.approx(reference(logits, params), rel=1e-5)


@settings(max_examples=200, deadline=None)
@given(
    logits=LOGITS,
    top_k=st.sampled_from([0, 6]),
    threshold=st.sampled_from([0.02, 0.1, 0.3, 0.6]),
    exempt=st.sets(st.integers(0, 12) | st.just(50), max_size=5),
)
def test_xtc_like_the_reference(logits: list[float], top_k: int, threshold: float, exempt: set[int]) -> None:
    params = SamplingParams(temperature=1.0, top_k=top_k)
    expected = xtc_reference(reference(logits, params), threshold, exempt)
    exempt_ids = np.array(sorted(exempt), dtype=np.int64)
    kept = exclude_top_choices(filtered(logits, params), threshold, exempt_ids)
    assert distribution(kept) == pytest.approx(expected, rel=1e-5)


def logits_of(*probs: float) -> list[float]:
    return [math.log(p) for p in probs]


def kept_ids(kept: Candidates) -> list[int]:
    return sorted(distribution(kept))


def test_top_p_counts_mass_after_temperature() -> None:
    # Squared by temperature 0.5: 0.25, 0.09, 0.04 of 0.38, so the first holds 66 %.
    logits = logits_of(0.5, 0.3, 0.2)
    assert kept_ids(filtered(logits, SamplingParams(temperature=0.5, top_p=0.6))) == [0]
    assert kept_ids(filtered(logits, SamplingParams(temperature=1.0, top_p=0.6))) == [0, 1]


def test_top_p_counts_mass_of_what_top_k_left() -> None:
    # Of the best two, the first holds 4/7 = 57 %; of all, 40 %.
    logits = logits_of(0.4, 0.3, 0.2, 0.1)
    assert kept_ids(filtered(logits, SamplingParams(temperature=1, top_p=0.5, top_k=2))) == [0]
    assert kept_ids(filtered(logits, SamplingParams(temperature=1, top_p=0.5))) == [0, 1]


def test_min_p_compares_after_temperature() -> None:
    # Temperature 2 turns ratios of 1, 0.64, 0.09 into 1, 0.8, 0.3; temperature 0.5 into 1, 0.41, 0.008.
    logits = logits_of(1, 0.64, 0.09)
    assert kept_ids(filtered(logits, SamplingParams(temperature=2, min_p=0.25))) == [0, 1, 2]
    assert kept_ids(filtered(logits, SamplingParams(temperature=2, min_p=0.35))) == [0, 1]
    assert kept_ids(filtered(logits, SamplingParams(temperature=0.5, min_p=0.5))) == [0]


@pytest.mark.parametrize("params", [SamplingParams(temperature=1, top_p=0.01), SamplingParams(min_p=1.0)])
def test_the_most_likely_token_always_stays(params: SamplingParams) -> None:
    assert kept_ids(filtered(logits_of(0.2, 0.5, 0.3), params)) == [1]


def test_top_p_counts_the_dust_of_a_large_vocabulary() -> None:
    num_dust, dust = 200_000, math.exp(-20.5)
    logits = [0.0] + [-20.5] * num_dust
    total = 1 + num_dust * dust  # 1.00025
    kept = filtered(logits, SamplingParams(temperature=1, top_p=0.9999))
    assert len(kept.weights) == pytest.approx(1 + (0.9999 * total - 1) / dust, rel=1e-3)  # some 120 000
    assert kept_ids(filtered(logits, SamplingParams(temperature=1, top_p=0.999))) == [0]


def test_xtc_keeps_the_least_likely_of_the_top_choices() -> None:
    kept = filtered(logits_of(0.4, 0.3, 0.2, 0.1), SamplingParams(temperature=1))
    assert kept_ids(exclude_top_choices(kept, 0.15, NOTHING)) == [2, 3]
    assert kept_ids(exclude_top_choices(kept, 0.35, NOTHING)) == [0, 1, 2, 3]  # only one above
    assert kept_ids(exclude_top_choices(kept, 0.15, np.array([0]))) == [0, 2, 3]
    assert kept_ids(exclude_top_choices(kept, 0.05, np.array([1, 999]))) == [1, 3]


def test_xtc_sees_probabilities_renormalised_by_the_filters() -> None:
    logits = logits_of(0.24, 0.16, 0.15, 0.15, 0.15, 0.15)
    top_two = filtered(logits, SamplingParams(temperature=1, top_k=2))  # 60 % and 40 %
    assert kept_ids(exclude_top_choices(top_two, 0.3, NOTHING)) == [1]
    assert kept_ids(exclude_top_choices(top_two, 0.3, np.array([0]))) == [0, 1]


@pytest.mark.parametrize("temperature", [1e-300, 1e-7, 1e300, math.inf])
def test_extreme_temperatures_stay_finite(temperature: float) -> None:
    probs = distribution(filtered([1.0, 2.0, -3e30], SamplingParams(temperature=temperature)))
    expected = [0.0, 1.0, 0.0] if temperature < 1 else [0.5, 0.5, 0.0]
    assert [probs[i] for i in range(3)] == pytest.approx(expected, abs=1e-5)


def test_masked_tokens_have_no_weight() -> None:
    logits = [-math.inf, 0.0, -math.inf, 0.0]
    assert distribution(filtered(logits, SamplingParams())) == {0: 0.0, 1: 0.5, 2: 0.0, 3: 0.5}
    assert kept_ids(filtered(logits, SamplingParams(min_p=0.1))) == [1, 3]
    assert kept_ids(filtered(logits, SamplingParams(top_p=0.9))) == [1, 3]
