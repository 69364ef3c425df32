"""Sampling fields: defaults in their order of precedence, ranges, error messages."""

from dataclasses import replace
from typing import Any

import pytest
from tests.api.fronts import make_front
from tests.fakes import byte_text_model

from stoker.api import ApiSettings, ApiState
from stoker.api.fields import Fields
from stoker.api.openai import sampling
from stoker.chat.defaults import GenerationDefaults
from stoker.core import SamplingParams
from stoker.errors import InvalidRequest


def state(settings: ApiSettings | None = None, defaults: GenerationDefaults | None = None) -> ApiState:
    text = byte_text_model()
    if defaults is not None:
        text = replace(text, generation_defaults=defaults)
    return make_front(text=text, settings=settings).state


def read(body: dict[str, Any], where: ApiState | None = None, thinking: bool | None = None) -> SamplingParams:
    return sampling.read_sampling(Fields(body), where or state(), thinking=thinking, logprobs=-1)


def refusal(body: dict[str, Any]) -> str:
    with pytest.raises(InvalidRequest) as caught:
        read(body)
    return caught.value.message


def test_built_in_defaults() -> None:
    params = read({})
    assert params == SamplingParams(temperature=0.7, top_p=0.0, top_k=0, min_p=0.0)
    assert params.seed is None
    assert params.repetition_context_size == 20


def test_the_models_own_come_before_the_built_in() -> None:
    own = GenerationDefaults(temperature=0.3, top_p=0.9, top_k=40, min_p=0.05, repetition_penalty=1.1)
    params = read({}, state(defaults=own))
    assert (params.temperature, params.top_p, params.top_k) == (0.3, 0.9, 40)
    assert (params.min_p, params.repetition_penalty) == (0.05, 1.1)


def test_the_operators_come_before_the_models() -> None:
    own = GenerationDefaults(temperature=0.3, top_p=0.9, top_k=40)
    params = read({}, state(ApiSettings(temperature=1.2, top_p=0.5, top_k=7), own))
    assert (params.temperature, params.top_p, params.top_k) == (1.2, 0.5, 7)


def test_the_requests_come_first_even_when_zero() -> None:
    own = GenerationDefaults(temperature=0.3, top_p=0.9, top_k=40)
    where = state(ApiSettings(temperature=1.2, top_p=0.5, top_k=7), own)
    params = read({"temperature": 0, "top_p": 0, "top_k": 0}, where)
    assert (params.temperature, params.top_p, params.top_k) == (0.0, 0.0, 0)


def test_an_unset_temperature_is_capped_unless_thinking() -> None:
    hot = GenerationDefaults(temperature=1.0)
    assert read({}, state(defaults=hot)).temperature == 0.7
    assert read({}, state(defaults=hot), thinking=True).temperature == 1.0
    assert read({"temperature": 1.0}, state(defaults=hot)).temperature == 1.0


@pytest.mark.parametrize(
    ("field", "low", "high"),
    [
        ("temperature", 0, 100),
        ("top_p", 0, 1),
        ("min_p", 0, 1),
        ("xtc_probability", 0, 1),
        ("xtc_threshold", 0, 1),
        ("repetition_penalty", 0, 100),
        ("presence_penalty", -100, 100),
        ("frequency_penalty", -100, 100),
    ],
)
def test_numbers(field: str, low: int, high: int) -> None:
    read({field: low})
    read({field: high})
    read({field: None})
    assert refusal({field: low - 0.5}) == f"{field} must be at least {low}"
    assert refusal({field: high + 0.5}) == f"{field} must be at most {high}"
    for wrong in ("1", True, [], {}, float("inf"), float("nan")):
        assert refusal({field: wrong}) == f"{field} must be of type float"


@pytest.mark.parametrize(
    "field",
    ["top_k", "repetition_context_size", "presence_context_size", "frequency_context_size"],
)
def test_counts(field: str) -> None:
    read({field: 0})
    read({field: 10**12})
    assert refusal({field: -1}) == f"{field} must be at least 0"
    for wrong in ("1", True, 1.5, [], {}):
        assert refusal({field: wrong}) == f"{field} must be of type int"


def test_seeds_of_64_bits() -> None:
    assert read({"seed": 42}).seed == 42
    assert read({"seed": 0}).seed == 0
    for seed in (-1, 2**64 - 1, -(2**63)):
        folded = read({"seed": seed}).seed
        assert folded is not None
        assert 0 <= folded < 2**63
    assert refusal({"seed": 2**64}).startswith("seed must be at most")
    assert refusal({"seed": 1.5}) == "seed must be of type int"


def test_values_that_would_overflow_are_tamed() -> None:
    assert read({"temperature": 1e-300}).temperature == 0.0
    assert read({"repetition_penalty": 0}).repetition_penalty == 1.0
    assert read({"repetition_penalty": 1e-300}).repetition_penalty == 0.01
    assert read({"top_k": 2**62}).top_k == 258  # the byte tokenizer's vocabulary
    assert read({"repetition_context_size": 2**62}).repetition_context_size == 4096


def test_logit_bias() -> None:
    assert read({"logit_bias": {"5": -100, "6": 1.5}}).logit_bias == {5: -100.0, 6: 1.5}
    assert read({"logit_bias": {"5": 1e308}}).logit_bias == {5: 1e5}
    assert read({"logit_bias": None}).logit_bias == {}
    for wrong in (
        [],
        "x",
        {"a": 1},
        {"1.5": 1},
        {"1": "x"},
        {"1": None},
        {"1": True},
        {"1": float("inf")},
        {" 1": 1},
        {"1_0": 1},
        {"٣": 1},
        {"1" * 30: 1},
        {"": 1},
    ):
        assert refusal({"logit_bias": wrong}) == "logit_bias must be a dict of int to float"
    assert "258 tokens" in refusal({"logit_bias": {"258": 1}})
    assert "-1" in refusal({"logit_bias": {"-1": 1}})


def test_max_tokens() -> None:
    where = state(ApiSettings(max_tokens=50))

    def read_max(body: dict[str, Any], at: ApiState = where) -> int | None:
        return sampling.read_max_tokens(Fields(body), at)

    assert read_max({}) == 50
    assert read_max({}, state()) is None
    assert read_max({"max_tokens": 7}) == 7
    assert read_max({"max_tokens": 7, "max_completion_tokens": 9}) == 9
    assert read_max({"max_tokens": 10**9}) == 4096  # capped, never refused
    for field in ("max_tokens", "max_completion_tokens"):
        for body, words in (
            ({field: 0}, f"{field} must be at least 1"),
            ({field: -1}, f"{field} must be at least 1"),
            ({field: "5"}, f"{field} must be of type int"),
            ({field: True}, f"{field} must be of type int"),
        ):
            with pytest.raises(InvalidRequest) as caught:
                read_max(body)
            assert caught.value.message == words


def test_stops() -> None:
    def read_stops(value: object) -> tuple[str, ...]:
        return sampling.read_stops(Fields({"stop": value}))

    assert read_stops(None) == ()
    assert read_stops("a") == ("a",)
    assert read_stops(["a", "", "b"]) == ("a", "b")
    assert read_stops("") == ()
    for wrong in (5, {}, [1], ["a", None], True):
        with pytest.raises(InvalidRequest, match="stop must be a string or an array of strings"):
            read_stops(wrong)


def test_n() -> None:
    assert sampling.read_n(Fields({})) == 1
    assert sampling.read_n(Fields({"n": 8})) == 8
    for wrong, words in (
        (0, "n must be at least 1"),
        (9, "n must be at most 8"),
        ("2", "n must be of type int"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            sampling.read_n(Fields({"n": wrong}))
        assert caught.value.message == words


def test_an_adapter_that_is_not_there_is_refused() -> None:
    for harmless in ({}, {"adapter": None}, {"adapter": "none"}):
        sampling.read_common(Fields(harmless))
    with pytest.raises(InvalidRequest, match="unknown adapter 'x'; mounted: none"):
        sampling.read_common(Fields({"adapter": "x"}))
