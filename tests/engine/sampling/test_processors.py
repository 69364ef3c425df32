"""Bias and penalties by hand calculation; every figure here is exact in float32."""

import math

import numpy as np
import pytest

from stoker.core import SamplingParams
from stoker.engine.sampling.processors import Processors

INF = math.inf


def processed(logits: list[float], params: SamplingParams, prompt: list[int], *generated: int) -> list[float]:
    processors = Processors(params, prompt)
    for token_id in generated:
        processors.accept(token_id)
    row = np.array(logits, dtype=np.float32)
    processors.apply(row)
    return row.tolist()


def test_nothing_asked_nothing_done() -> None:
    assert not Processors(SamplingParams(), [1, 2]).active
    assert not Processors(SamplingParams(logit_bias={3: 0.0}, repetition_penalty=1.0), [1, 2]).active


def test_bias_is_added() -> None:
    params = SamplingParams(logit_bias={0: 5, 2: -1.5})
    assert processed([1, 2, 3], params, []) == [6, 2, 1.5]


def test_repetition_divides_positive_and_multiplies_negative_once_however_often() -> None:
    params = SamplingParams(repetition_penalty=2.0)
    assert processed([2, -2, 0, 8], params, [0, 1], 2, 1, 1) == [1, -4, 0, 8]


def test_repetition_below_one_encourages() -> None:
    assert processed([2, -2, 4], SamplingParams(repetition_penalty=0.5), [0, 1]) == [4, -1, 4]


def test_repetition_of_zero_is_off() -> None:
    assert processed([2, -2, 0], SamplingParams(repetition_penalty=0.0), [0, 1, 2]) == [2, -2, 0]


def test_presence_once_frequency_per_occurrence() -> None:
    history = [0, 1, 1, 1]
    assert processed([8, 8, 8], SamplingParams(presence_penalty=0.5), history) == [7.5, 7.5, 8]
    assert processed([8, 8, 8], SamplingParams(frequency_penalty=0.5), history) == [7.5, 6.5, 8]
    assert processed([8, 8, 8], SamplingParams(frequency_penalty=-0.5), history) == [8.5, 9.5, 8]


def test_order_is_bias_repetition_presence_frequency() -> None:
    params = SamplingParams(
        logit_bias={0: 6}, repetition_penalty=2, presence_penalty=1, frequency_penalty=0.25
    )
    # (2 + 6) / 2 - 1 - 2 * 0.25
    assert processed([2, 1], params, [0, 0]) == [2.5, 1]


def test_default_window_is_twenty_tokens_of_prompt_and_reply() -> None:
    params = SamplingParams(presence_penalty=1)
    prompt = [0, 1] + [9] * 17
    logits = [0.0] * 10
    assert processed(logits, params, prompt, 2)[:4] == [-1, -1, -1, 0]  # exactly 20 tokens
    assert processed(logits, params, prompt, 2, 3)[:4] == [0, -1, -1, -1]  # token 0 has left


def test_each_penalty_has_its_own_window_and_zero_is_all() -> None:
    params = SamplingParams(
        repetition_penalty=2,
        repetition_context_size=1,
        presence_penalty=1,
        presence_context_size=2,
        frequency_penalty=0.25,
        frequency_context_size=0,
    )
    prompt = [0] * 30 + [1]
    # token 0: 30 occurrences in all; 1: in the window of two; 2: in all three windows
    assert processed([16, 16, 16], params, prompt, 2) == [16 - 7.5, 16 - 1 - 0.25, 8 - 1 - 0.25]


def test_window_counts_only_what_it_holds() -> None:
    params = SamplingParams(frequency_penalty=1, frequency_context_size=3)
    assert processed([0, 0], params, [0, 0, 0, 0], 1) == [-2, -1]


def test_ids_outside_the_vocabulary_are_passed_over() -> None:
    params = SamplingParams(
        logit_bias={-1: 5, 1: 3, 7: 5, 2**70: 5}, presence_penalty=1, frequency_penalty=0.5
    )
    assert processed([0, 0, 0], params, [0, 3, -2], 2) == [-1.5, 3, -1.5]


@pytest.mark.parametrize("huge", [1e30, 1e39, 1e300])
def test_huge_values_stay_finite(huge: float) -> None:
    params = SamplingParams(
        logit_bias={0: huge, 1: -huge},
        repetition_penalty=huge,
        presence_penalty=-huge,
        frequency_penalty=huge,
    )
    row = processed([1, -1, 5, 0], params, [2, 2, 0, 1])
    assert all(math.isfinite(logit) for logit in row)
    assert row[3] == 0


def test_tiny_repetition_penalty_stays_finite() -> None:
    row = processed([5, -5, 0], SamplingParams(repetition_penalty=1e-320), [0, 1, 2])
    assert all(math.isfinite(logit) for logit in row)
    assert row[0] > row[2] > row[1] or row[0] > row[2] == row[1]


def test_a_token_the_model_excludes_stays_excluded() -> None:
    params = SamplingParams(logit_bias={0: 100}, repetition_penalty=2, presence_penalty=-5)
    assert processed([-INF, 1], params, [0]) == [-INF, 1]


def test_not_a_number_is_passed_on() -> None:
    row = processed([math.nan, 1], SamplingParams(logit_bias={0: 100}, repetition_penalty=2), [0])
    assert math.isnan(row[0])
    assert row[1] == 1
