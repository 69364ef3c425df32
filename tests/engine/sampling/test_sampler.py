"""Whole steps: draws follow their distribution, rows do not see each other, broken rows fail alone."""

import math
import random
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core import SamplingParams
from stoker.engine.sampling import RowFailure, Sampled, SamplerRow, sample, settle
from stoker.engine.sampling.sampler import _likeliest

GREEDY = SamplingParams(temperature=0)
# 0.999 quantiles of chi-square by degrees of freedom, from the usual tables.
CHI_SQUARE = {1: 10.83, 2: 13.82, 3: 16.27, 4: 18.47}


def sample_one(
    logits: list[float], params: SamplingParams, prompt: tuple[int, ...] = (0,)
) -> Sampled | RowFailure:
    return sample(torch.tensor([logits]), [SamplerRow(params, prompt)])[0]


def token(logits: list[float], params: SamplingParams, prompt: tuple[int, ...] = (0,)) -> int:
    result = sample_one(logits, params, prompt)
    assert isinstance(result, Sampled)
    return result.token_id


def counts_over_steps(probs: list[float], params: SamplingParams, steps: int = 4000) -> list[int]:
    row = SamplerRow(params, (0,), eos_ids={100}, newline_ids={101})
    counts = [0] * len(probs)
    for _ in range(steps):
        (result,) = sample(torch.tensor([probs]).log(), [row])
        assert isinstance(result, Sampled)
        counts[result.token_id] += 1
        row.accept(result.token_id)
    return counts


def assert_follows(counts: list[int], probs: list[float]) -> None:
    possible = [i for i, p in enumerate(probs) if p > 0]
    assert all(count == 0 for i, count in enumerate(counts) if i not in possible)
    total = sum(counts)
    statistic = sum((counts[i] - total * probs[i]) ** 2 / (total * probs[i]) for i in possible)
    assert statistic < CHI_SQUARE[len(possible) - 1]


class TestGreedy:
    def test_takes_the_largest_and_the_lowest_id_of_equals(self) -> None:
        logits = torch.tensor([[0.0, 3.0, 1.0], [2.0, 1.0, 2.0], [-5.0, -5.0, -5.0]])
        rows = [SamplerRow(GREEDY, (0,)) for _ in range(3)]
        assert sample(logits, rows) == [Sampled(1), Sampled(0), Sampled(0)]

    def test_ignores_filters_xtc_and_seed(self) -> None:
        params = replace(GREEDY, top_k=1, top_p=0.1, xtc_probability=1, xtc_threshold=0.01, seed=3)
        assert token([1.0, 1.5, 1.4], params) == 1

    def test_sees_bias_and_penalties(self) -> None:
        assert token([0.0, 1.0], replace(GREEDY, logit_bias={0: 100})) == 0
        assert token([2.0, 1.9], replace(GREEDY, repetition_penalty=1.1), prompt=(0,)) == 1

    def test_other_devices_argmax_gives_the_same(self) -> None:
        logits = torch.randn(6, 1000, generator=torch.Generator().manual_seed(0))
        logits[1, 500:] = 9.0
        logits[2, 7] = math.nan
        logits[3, 7] = math.inf
        logits[4] = -math.inf
        rows = [SamplerRow(GREEDY, (0,)) for _ in range(6)]
        elsewhere = SimpleNamespace(device=SimpleNamespace(type="elsewhere"), max=logits.max)
        found = settle(_likeliest(elsewhere))  # by torch where the logits are, and here by NumPy
        assert found == sample(logits.clone(), rows)
        expected = [max(range(1000), key=logits[row].tolist().__getitem__) for row in (0, 1, 5)]
        assert [found[row] for row in (0, 1, 5)] == [Sampled(token_id) for token_id in expected]
        assert all(isinstance(found[row], RowFailure) for row in (2, 3, 4))


class TestDistribution:
    PROBS = (0.4, 0.3, 0.15, 0.1, 0.05)

    def test_temperature_one(self) -> None:
        counts = counts_over_steps(list(self.PROBS), SamplingParams(temperature=1, seed=1))
        assert_follows(counts, list(self.PROBS))

    def test_temperature_half_squares(self) -> None:
        squares = [p * p for p in self.PROBS]
        counts = counts_over_steps(list(self.PROBS), SamplingParams(temperature=0.5, seed=2))
        assert_follows(counts, [square / sum(squares) for square in squares])

    def test_top_p_renormalises(self) -> None:
        counts = counts_over_steps(list(self.PROBS), SamplingParams(temperature=1, top_p=0.6, seed=3))
        assert_follows(counts, [4 / 7, 3 / 7, 0, 0, 0])

    def test_seeds_are_as_good_as_positions(self) -> None:
        rows = [SamplerRow(SamplingParams(temperature=1, seed=seed), (0,)) for seed in range(4000)]
        results = sample(torch.tensor([self.PROBS] * 4000).log(), rows)
        counts = [sum(r == Sampled(i) for r in results) for i in range(5)]
        assert_follows(counts, list(self.PROBS))

    def test_xtc_applies_with_its_probability(self) -> None:
        params = SamplingParams(temperature=1, xtc_probability=0.5, xtc_threshold=0.25, seed=4)
        # Half of the steps draw from (0.5, 0.3, 0.2), half from (0, 0.6, 0.4).
        assert_follows(counts_over_steps([0.5, 0.3, 0.2], params), [0.25, 0.45, 0.3])

    def test_xtc_always(self) -> None:
        params = SamplingParams(temperature=1, xtc_probability=1, xtc_threshold=0.25, seed=5)
        assert_follows(counts_over_steps([0.5, 0.3, 0.2], params), [0, 0.6, 0.4])

    def test_xtc_spares_end_of_sequence_and_newline(self) -> None:
        params = SamplingParams(temperature=1, xtc_probability=1, xtc_threshold=0.15)
        logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]] * 3000).log()
        rows = [SamplerRow(replace(params, seed=i), (0,), eos_ids={0}, newline_ids={1}) for i in range(3000)]
        counts = [0, 0, 0, 0]
        for result in sample(logits, rows):
            assert isinstance(result, Sampled)
            counts[result.token_id] += 1
        assert_follows(counts, [0.4, 0.3, 0.2, 0.1])


MIXED = [
    GREEDY,
    SamplingParams(seed=1),
    SamplingParams(top_p=0.9, seed=2, logprobs=3),
    SamplingParams(top_k=20, top_p=0.8, seed=3, repetition_penalty=1.3),
    SamplingParams(min_p=0.05, seed=4, presence_penalty=0.7, frequency_penalty=0.2),
    SamplingParams(temperature=1.5, xtc_probability=0.5, xtc_threshold=0.02, seed=5, logprobs=0),
    replace(GREEDY, logprobs=5, logit_bias={5: 3.0}),
    SamplingParams(temperature=0.9, top_p=0.95, min_p=0.02, seed=6),
]


class TestIndependence:
    VOCAB = 5003  # odd, so that rows start at every alignment

    def run(self, order: list[int], steps: int = 6) -> dict[int, list[Sampled | RowFailure]]:
        """The rows of MIXED at `order`, in this order in the batch, for some steps."""
        rows = {i: SamplerRow(MIXED[i], range(i, i + 30), eos_ids={2}) for i in order}
        results: dict[int, list[Sampled | RowFailure]] = {i: [] for i in order}
        for step in range(steps):
            logits = torch.stack([self.logits(i, step) for i in order])
            for i, result in zip(order, sample(logits, [rows[i] for i in order]), strict=True):
                assert isinstance(result, Sampled)
                results[i].append(result)
                rows[i].accept(result.token_id)
        return results

    def logits(self, row: int, step: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(100 * row + step)
        return torch.randn(self.VOCAB, generator=generator) * 2

    def test_a_row_does_not_depend_on_its_batch(self) -> None:
        alone = {i: self.run([i])[i] for i in range(8)}
        order = list(range(8))
        for shuffle in range(5):
            random.Random(shuffle).shuffle(order)
            assert self.run(order) == alone

    def test_sampling_twice_without_accepting_gives_the_same(self) -> None:
        rows = [SamplerRow(params, (1, 2, 3)) for params in MIXED]
        logits = torch.stack([self.logits(i, 0) for i in range(8)])
        assert sample(logits.clone(), rows) == sample(logits.clone(), rows)

    def test_positions_draw_anew(self) -> None:
        row = SamplerRow(SamplingParams(temperature=1, seed=9), (0,))
        drawn = []
        for _ in range(20):
            (result,) = sample(torch.zeros(1, 1000), [row])
            assert isinstance(result, Sampled)
            drawn.append(result.token_id)
            row.accept(result.token_id)
        assert row.position == 20
        assert len(set(drawn)) > 15

    def test_choices_of_one_seed_differ_and_repeat(self) -> None:
        params = SamplingParams(temperature=1, seed=9)

        def drawn() -> list[Sampled | RowFailure]:
            return sample(
                torch.zeros(8, 10_000), [SamplerRow(params, (0,), choice_index=i) for i in range(8)]
            )

        assert drawn() == drawn()
        assert len({result.token_id for result in drawn() if isinstance(result, Sampled)}) == 8

    def test_without_a_seed_equal_requests_differ(self) -> None:
        rows = [SamplerRow(SamplingParams(temperature=1), (0,)) for _ in range(8)]
        results = sample(torch.zeros(8, 100_000), rows)
        assert len({result.token_id for result in results if isinstance(result, Sampled)}) > 1


class TestLogprobs:
    def test_before_temperature_and_filters_after_penalties(self) -> None:
        params = SamplingParams(
            temperature=0.1, top_k=2, logit_bias={1: 1.0}, presence_penalty=0.5, logprobs=3, seed=0
        )
        result = sample_one([1.0, 2.0, 3.0, 0.5], params, prompt=(2,))
        assert isinstance(result, Sampled)
        # Hand calculation: 1, 2 + 1, 3 - 0.5, 0.5.
        expected = torch.tensor([1.0, 3.0, 2.5, 0.5]).double().log_softmax(0).tolist()
        assert result.logprob == pytest.approx(expected[result.token_id], abs=1e-6)
        assert [a.token_id for a in result.top] == [1, 2, 0]
        assert [a.logprob for a in result.top] == pytest.approx([expected[i] for i in (1, 2, 0)], abs=1e-6)

    def test_only_where_asked_for(self) -> None:
        rows = [SamplerRow(replace(GREEDY, logprobs=n), (0,)) for n in (-1, 0, 2)]
        none, own, two = sample(torch.tensor([[0.0, 1.0, 2.0]] * 3), rows)
        assert none == Sampled(2)
        assert isinstance(own, Sampled)
        assert isinstance(two, Sampled)
        assert own.logprob == two.logprob == pytest.approx(-math.log(1 + math.exp(-1) + math.exp(-2)))
        assert own.top == ()
        assert [a.token_id for a in two.top] == [2, 1]

    def test_more_than_the_vocabulary(self) -> None:
        result = sample_one([0.0, 1.0], replace(GREEDY, logprobs=20))
        assert isinstance(result, Sampled)
        assert [a.token_id for a in result.top] == [1, 0]


class TestGuards:
    @pytest.mark.parametrize(
        "params", [GREEDY, SamplingParams(seed=1), SamplingParams(top_p=0.9, seed=2, logprobs=2)]
    )
    @pytest.mark.parametrize("broken", [math.nan, math.inf])
    def test_a_broken_row_fails_alone(self, params: SamplingParams, broken: float) -> None:
        logits = torch.randn(3, 500, generator=torch.Generator().manual_seed(1))
        alone = sample(logits[::2].clone(), [SamplerRow(params, (0,)) for _ in range(2)])
        logits[1, 17] = broken
        first, middle, last = sample(logits, [SamplerRow(params, (0,)) for _ in range(3)])
        assert [first, last] == alone
        assert isinstance(middle, RowFailure)
        assert ("not a number" if math.isnan(broken) else "infinite") in middle.message

    @pytest.mark.parametrize("params", [GREEDY, SamplingParams(), SamplingParams(top_k=2, logprobs=1)])
    def test_a_row_without_any_token_fails(self, params: SamplingParams) -> None:
        result = sample_one([-math.inf] * 4, params)
        assert isinstance(result, RowFailure)
        assert "masked" in result.message

    def test_not_a_number_under_a_penalty_is_found(self) -> None:
        result = sample_one([math.nan, 1.0], replace(GREEDY, repetition_penalty=1.3))
        assert isinstance(result, RowFailure)

    @pytest.mark.parametrize("params", [GREEDY, SamplingParams(seed=1), SamplingParams(seed=1, top_p=0.5)])
    @pytest.mark.parametrize("bias", [100.0, 1e30, 1e300])
    def test_huge_bias_decides(self, params: SamplingParams, bias: float) -> None:
        logits = [5.0, 1.0, 4.0]
        for sign, expected in ((1, 1), (-1, 0)):
            logit_bias = {1: bias} if sign > 0 else {1: -bias, 2: -bias}
            result = sample_one(logits, replace(params, logit_bias=logit_bias, logprobs=3))
            assert isinstance(result, Sampled)
            assert result.token_id == expected
            assert all(math.isfinite(a.logprob) and a.logprob <= 0 for a in result.top)

    def test_every_token_pushed_out_still_gives_one(self) -> None:
        logit_bias = {0: -1e30, 1: -1e30}
        assert token([1.0, 2.0], SamplingParams(logit_bias=logit_bias, seed=0)) in (0, 1)

    def test_inference_tensors_and_gradients_are_accepted(self) -> None:
        params = replace(GREEDY, logit_bias={1: 10.0})
        with torch.inference_mode():
            logits = torch.zeros(1, 3)
        assert sample(logits, [SamplerRow(params, (0,))]) == [Sampled(1)]
        assert sample(torch.zeros(1, 3, requires_grad=True), [SamplerRow(params, (0,))]) == [Sampled(1)]

    def test_no_rows(self) -> None:
        assert sample(torch.empty(0, 100), []) == []


def bits(*token_ids: int) -> np.ndarray:
    """A mask of one word."""
    return np.array([sum(1 << token_id for token_id in token_ids)], dtype=np.uint32)


@dataclass
class Limit:
    """A row's tokens, and what it was asked."""

    token_ids: tuple[int, ...]
    asked: list[int | str] = field(default_factory=list)

    def allows(self, token_id: int) -> bool:
        self.asked.append(token_id)
        return token_id in self.token_ids

    def mask(self) -> np.ndarray:
        self.asked.append("mask")
        return bits(*self.token_ids)


class TestAllowed:
    def test_only_allowed_tokens_are_taken(self) -> None:
        rows = [SamplerRow(GREEDY, (0,)), SamplerRow(SamplingParams(seed=1), (0,)), SamplerRow(GREEDY, (0,))]
        logits = torch.tensor([[9.0, 1.0, 8.0, 2.0]] * 3)
        first, second, third = sample(logits, rows, [Limit((1, 3)), Limit((1, 3)), None])
        assert first == Sampled(3)
        assert isinstance(second, Sampled)
        assert second.token_id in (1, 3)
        assert third == Sampled(0)

    def test_a_mask_is_made_only_where_one_token_does_not_decide(self) -> None:
        likely, unlikely, drawn = Limit((0, 3)), Limit((1, 3)), Limit((0, 3))
        rows = [SamplerRow(params, (0,)) for params in (GREEDY, GREEDY, SamplingParams(seed=1))]
        together: list[list[Limit]] = []
        results = sample(
            torch.tensor([[9.0, 1.0, 8.0, 2.0]] * 3), rows, [likely, unlikely, drawn], together.append
        )
        assert results[:2] == [Sampled(0), Sampled(3)]
        assert [limit.asked for limit in (likely, unlikely, drawn)] == [[0], [0, "mask"], ["mask"]]
        assert together == [[unlikely, drawn]]

    @pytest.mark.parametrize("params", MIXED)
    def test_masks_of_everything_change_nothing(self, params: SamplingParams) -> None:
        logits = torch.randn(1, 30, generator=torch.Generator().manual_seed(5))
        free = sample(logits.clone(), [SamplerRow(params, (0, 1))])
        assert sample(logits, [SamplerRow(params, (0, 1))], [Limit(tuple(range(30)))]) == free

    def test_logprobs_do_not_see_the_mask(self) -> None:
        params = replace(GREEDY, logprobs=1)
        (result,) = sample(torch.zeros(1, 4), [SamplerRow(params, (0,))], [Limit((3,))])
        assert isinstance(result, Sampled)
        assert result.token_id == 3
        assert result.logprob == pytest.approx(-math.log(4))
        assert [a.token_id for a in result.top] == [0]

    def test_nothing_allowed_fails(self) -> None:
        (result,) = sample(torch.zeros(1, 4), [SamplerRow(GREEDY, (0,))], [Limit(())])
        assert isinstance(result, RowFailure)


PARAMS = st.builds(
    SamplingParams,
    temperature=st.one_of(st.just(0.0), st.floats(0, 5), st.floats(0, 1e300)),
    top_p=st.floats(0, 1),
    top_k=st.integers(0, 70),
    min_p=st.floats(0, 1),
    xtc_probability=st.floats(0, 1),
    xtc_threshold=st.floats(0, 1),
    seed=st.none() | st.integers(),
    logit_bias=st.dictionaries(st.integers(-2, 80), st.floats(allow_nan=False), max_size=4),
    repetition_penalty=st.floats(0, 1e308),
    repetition_context_size=st.integers(0, 5),
    presence_penalty=st.floats(allow_nan=False),
    frequency_penalty=st.floats(allow_nan=False),
    frequency_context_size=st.integers(0, 5),
    logprobs=st.integers(-1, 20),
)


@settings(max_examples=150, deadline=None)
@given(
    params=PARAMS,
    logits=st.lists(
        st.floats(-(2.0**99), 2.0**99, width=32) | st.floats(-20, 20, width=32), min_size=1, max_size=64
    ),
    prompt=st.lists(st.integers(0, 63), min_size=1, max_size=10),
)
def test_any_valid_row_gets_a_token(params: SamplingParams, logits: list[float], prompt: list[int]) -> None:
    row = SamplerRow(params, prompt, eos_ids={1}, newline_ids={2})
    for _ in range(3):
        (result,) = sample(torch.tensor([logits]), [row])
        assert isinstance(result, Sampled)
        assert 0 <= result.token_id < len(logits)
        assert (result.logprob is None) == (params.logprobs < 0)
        assert result.logprob is None or -9999.0 <= result.logprob <= 0
        assert len(result.top) == min(len(logits), max(0, params.logprobs))
        row.accept(result.token_id)
