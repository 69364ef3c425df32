from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.chat.readings import Result, read, reading
from tests.chat.tools.broken import BROKEN
from tests.chat.tools.good import GOOD

from stoker.chat.tools import FORMATS


def test_there_are_a_hundred() -> None:
    assert len({(name, reply) for name, reply, _ in BROKEN}) >= 100


@pytest.mark.parametrize(("name", "reply", "calls"), BROKEN)
def test_repaired_or_text(name: str, reply: str, calls: list[tuple[str, Any]] | None) -> None:
    expected = Result(reply, "", []) if calls is None else Result("", "", calls)
    assert read(reading(name), [reply]) == expected
    assert read(reading(name), reply) == expected


@pytest.mark.parametrize(("name", "reply", "calls"), [b for b in BROKEN if b[2] is not None])
def test_text_in_front_is_kept(name: str, reply: str, calls: list[tuple[str, Any]]) -> None:
    if reply.startswith("{"):
        return
    assert read(reading(name), "Well then.\n\n" + reply) == Result("Well then.", "", calls)


PIECES = sorted(
    {word for found in FORMATS.values() for word in (*found.markers, *found.tokens)}
    | {"<think>", "</think>", "get_weather", "now", '"name": ', '"arguments": ', '{"', '"}', "{}", ", ", "\n"}
    | {
        "<function=",
        "<parameter=city>",
        "</parameter>",
        "</function>",
        "call:",
        "'",
        "\\",
        "a",
        " ",
        "[",
        "]",
    }
    | {good.reply[: len(good.reply) // 2] for good in GOOD}
)


@settings(deadline=None, max_examples=400)
@given(
    name=st.sampled_from(sorted(FORMATS)),
    parts=st.lists(st.sampled_from(PIECES), max_size=8),
    cuts=st.sets(st.integers(1, 400), max_size=6),
)
def test_any_cut_of_any_text_gives_the_same(name: str, parts: list[str], cuts: set[int]) -> None:
    text = "".join(parts)
    places = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    whole = read(reading(name), [text])  # decoding the arguments also shows that they are JSON
    assert read(reading(name), pieces) == whole
    assert read(reading(name), text) == whole
