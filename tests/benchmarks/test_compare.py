"""How the comparison is summed up and drawn, from numbers made by hand. No server is started."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from benchmarks.compare import draw, early_ends, show, summarize_columns
from benchmarks.facts import busy_note
from benchmarks.plot import Bar, svg
from benchmarks.report import number, table
from benchmarks.serve import Round


def _round(decode: float, cold_ms: float, tokens_min: float = 128) -> Round:
    return {
        "streams_1": {"decode_tokens_per_s": decode, "tokens_min": tokens_min},
        "long_prompt": {"cold_ttft_ms": cold_ms},
    }


RESULTS = {
    "stoker": [_round(300, 900), _round(280, 1000), _round(500, 5000)],
    "llama-server": [_round(140, 8000), _round(100, 2000), _round(150, 4000, 90)],
}


def test_ratios_are_of_medians_and_only_measured_columns_appear() -> None:
    lines = {line["column"]: line for line in summarize_columns(RESULTS, "stoker", "llama-server")}
    assert set(lines) == {"1 stream, decode tokens/s", "long prompt cold, first token, ms"}
    decode = lines["1 stream, decode tokens/s"]
    assert decode["medians"] == {"stoker": 300, "llama-server": 140}
    assert decode["ratio"] == pytest.approx(300 / 140)
    assert lines["long prompt cold, first token, ms"]["ratio"] == pytest.approx(0.25)


def test_goals_are_met_in_the_direction_of_the_column() -> None:
    text = show(summarize_columns(RESULTS, "stoker", "llama-server"), "stoker", "llama-server")
    decode, cold = text.splitlines()[2:]
    assert decode.split()[-4:] == ["2.14", "≥", "1.8", "met"]
    assert cold.split()[-4:] == ["0.25", "≤", "0.3", "met"]


def test_streams_that_ended_early_are_named() -> None:
    [note] = early_ends(RESULTS, 128)
    assert "llama-server" in note
    assert "streams_1: 90 of 128" in note


def test_the_plot_shows_every_ratio_as_a_gain() -> None:
    drawing = draw(summarize_columns(RESULTS, "stoker", "llama-server"), "a & b", "<note>")
    texts = [
        element.text for element in ElementTree.fromstring(drawing).iter() if element.tag.endswith("text")
    ]
    assert {"a & b", "<note>", "2.14×", "4.00×"} <= set(texts)


def test_bars_of_equal_gain_and_loss_are_equally_long() -> None:
    root = ElementTree.fromstring(svg("t", "f", [Bar("twice", 2.0), Bar("half", 0.5)]))
    background, *bars = [float(e.attrib["width"]) for e in root.iter() if e.tag.endswith("rect")]
    assert bars[0] == pytest.approx(bars[1], abs=0.2)
    assert max(bars) < background


def test_tables_line_up() -> None:
    assert table(["name", "x"], [["a", "1"], ["long name", "1234"]]).splitlines() == [
        "name          x",
        "---------  ----",
        "a             1",
        "long name  1234",
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0.1234, "0.123"), (7.0, "7"), (12.345, "12.3"), (11253.2, "11,253")]
)
def test_numbers_have_about_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(("load", "warned"), [(None, False), (0.5, False), (0.7, True)])
def test_a_busy_machine_is_noted(load: float | None, warned: bool) -> None:
    assert bool(busy_note({"load_1min": load, "cores": 2})) is warned
