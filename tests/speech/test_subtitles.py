"""What players choke on: numbering, rounding, overlaps, times beyond the end, marks inside the text."""

from __future__ import annotations

import random
import re

import pytest

from stoker.speech.subtitles import cues, srt, vtt, wrap
from stoker.speech.types import Segment


def segment(id: int, start_s: float, end_s: float, text: str) -> Segment:
    return Segment(id, 0, start_s, end_s, text, (), 0.0, -0.2, 1.0, 0.0)


TWO = [segment(0, 0.0, 1.5, " Hello."), segment(1, 3601.9996, 3603.25, ' He said "go" --> there & <b>.')]


def test_srt() -> None:
    assert srt(TWO, 3700.0) == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello.\n\n"
        '2\n01:00:02,000 --> 01:00:03,250\nHe said "go" -> there & <b>.\n\n'
    )


def test_vtt() -> None:
    assert vtt(TWO, 3700.0) == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello.\n\n"
        '01:00:02.000 --> 01:00:03.250\nHe said "go" -&gt; there &amp; &lt;b&gt;.\n\n'
    )


def test_nothing_said() -> None:
    assert srt([], 5.0) == ""
    assert vtt([], 5.0) == "WEBVTT\n\n"


def test_empty_segments_take_no_number() -> None:
    text = srt(
        [segment(0, 0, 1, " "), segment(1, 1, 2, " One."), segment(2, 2, 3, ""), segment(3, 3, 4, " Two.")], 5
    )
    assert re.findall(r"^\d+$", text, re.M) == ["1", "2"]


@pytest.mark.parametrize("seed", range(30))
def test_cues_never_overlap_and_end_with_the_recording(seed: int) -> None:
    noise = random.Random(seed)
    duration_s = noise.uniform(5, 60)
    segments, at = [], 0.0
    for number in range(20):
        at += noise.uniform(-1, 4)
        segments.append(
            segment(number, max(at, 0), at + noise.uniform(-1, 6), " word" * noise.randrange(1, 40))
        )
    found = list(cues(segments, duration_s))
    assert len(found) == 20
    for cue, after in zip(found, [*found[1:], None], strict=True):
        assert 0 <= cue.start_ms <= cue.end_ms <= round(duration_s * 1000)
        assert after is None or cue.end_ms <= after.start_ms
        assert all(len(line) <= 42 for line in cue.lines)


def test_lines_break_between_words() -> None:
    assert wrap(" one two three", 7) == ["one two", "three"]
    assert wrap("a\n\nb") == ["a b"]
    assert wrap("x" * 50, 42) == ["x" * 42, "x" * 8]


def test_wide_characters_take_two_columns() -> None:
    lines = wrap("你好世界" * 10, 20)
    assert "".join(lines) == "你好世界" * 10
    assert all(len(line) <= 10 for line in lines)


def test_no_text_is_lost() -> None:
    noise = random.Random(7)
    for _ in range(200):
        text = " ".join("".join(noise.choices("abé你\u0301-", k=noise.randrange(1, 60))) for _ in range(9))
        assert "".join(wrap(text)).replace(" ", "") == text.replace("-->", "->").replace(" ", "")
