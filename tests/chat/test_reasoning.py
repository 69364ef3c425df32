from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.chat.reasoning import ReasoningSplitter, Segment, opens_reasoning, splitter_for


def split(pieces: list[str], starts_inside: bool = False) -> tuple[str, str]:
    splitter = ReasoningSplitter(starts_inside)
    segments = [segment for piece in pieces for segment in splitter.feed(piece)] + splitter.finish()
    return (
        "".join(s.text for s in segments if s.is_reasoning),
        "".join(s.text for s in segments if not s.is_reasoning),
    )


@pytest.mark.parametrize(
    ("text", "starts_inside", "expected"),
    [
        ("plain", False, ("", "plain")),
        ("<think>why</think>so", False, ("why", "so")),
        ("why</think>so", True, ("why", "so")),
        ("why", True, ("why", "")),  # B36: never closed
        ("<think>why", False, ("why", "")),
        ("so</think>", False, ("", "so")),  # a stray closing tag is not content
        ("<think></think>\n\nso", False, ("", "\n\nso")),
        ("a<think>b</think>c<think>d</think>e", False, ("bd", "ace")),
        ("1 < 2 and <th", False, ("", "1 < 2 and <th")),
        ("x </thin", True, ("x </thin", "")),
    ],
)
def test_channels(text: str, starts_inside: bool, expected: tuple[str, str]) -> None:
    assert split([text], starts_inside) == expected
    assert split(list(text), starts_inside) == expected


@settings(deadline=None)  # other work may share the processor
@given(
    parts=st.lists(st.sampled_from(["<think>", "</think>", "<", "/", "think", ">", "a"]), max_size=10),
    starts_inside=st.booleans(),
)
def test_any_cut_equals_a_regular_expression(parts: list[str], starts_inside: bool) -> None:
    inside, out = starts_inside, {True: "", False: ""}
    for part in re.split(r"(</?think>)", "".join(parts)):
        if part in ("<think>", "</think>"):
            inside = part == "<think>"
        else:
            out[inside] += part
    assert split(parts, starts_inside) == (out[True], out[False])
    assert split(list("".join(parts)), starts_inside) == (out[True], out[False])


def test_segments_say_where_they_end() -> None:
    splitter = ReasoningSplitter()
    assert splitter.feed("<thi") == []
    assert splitter.num_held == 4
    assert splitter.feed("nk>a</think>b") == [Segment(True, "a", 8), Segment(False, "b", 17)]


def test_where_a_reply_starts() -> None:
    assert opens_reasoning("<|im_start|>assistant\n<think>\n")
    assert not opens_reasoning("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not opens_reasoning("user wrote <think> in a question<|im_end|>assistant\n")
    assert splitter_for(["{{ messages }}"], "<think>") is None
    splitter = splitter_for(["... </think> ..."], "assistant\n<think>\n")
    assert splitter is not None
    assert splitter.feed("a") == [Segment(True, "a", 1)]
