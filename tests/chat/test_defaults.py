from __future__ import annotations

import pytest

from stoker.chat.defaults import GenerationDefaults


def test_reads_what_is_there() -> None:
    config = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "repetition_penalty": 1.05, "do_sample": True}
    assert GenerationDefaults.from_config(config) == GenerationDefaults(0.6, 0.95, 20, None, 1.05)
    assert GenerationDefaults.from_config({}) == GenerationDefaults()


@pytest.mark.parametrize("value", ["0.5", None, True, -1, float("nan"), float("inf"), [1]])
def test_odd_values_count_as_absent(value: object) -> None:
    config = {"temperature": value, "top_k": value, "top_p": value}
    assert GenerationDefaults.from_config(config) == GenerationDefaults()


@pytest.mark.parametrize(
    ("own", "thinking", "expected"),
    [
        (None, False, 0.7),
        (None, True, 0.7),
        (1.0, False, 0.7),
        (1.0, True, 1.0),
        (0.2, False, 0.2),
        (0, True, 0),
    ],
)
def test_temperature_when_unset(own: float | None, thinking: bool, expected: float) -> None:
    assert GenerationDefaults(temperature=own).unset_temperature(thinking) == expected
