from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.chat.stops import StopMatcher


def run(stops: list[str], pieces: list[str]) -> tuple[str, str | None, list[str]]:
    matcher = StopMatcher(stops)
    sent: list[str] = []
    for piece in pieces:
        text, stop = matcher.feed(piece)
        sent.append(text)
        if stop is not None:
            return "".join(sent), stop, sent
    text, stop = matcher.finish()
    return "".join(sent) + text, stop, sent


def reference(stops: list[str], text: str) -> tuple[str, str | None]:
    found = [(text.find(stop), len(stop), stop) for stop in stops if stop and stop in text]
    if not found:
        return text, None
    at, _, stop = min(found)
    return text[:at], stop


small = st.text(alphabet="ab", max_size=12)


@settings(deadline=None)  # other work may share the processor
@given(
    stops=st.lists(st.text(alphabet="ab", max_size=5), max_size=4),
    text=small,
    cuts=st.sets(st.integers(0, 12)),
)
def test_any_cut_equals_find(stops: list[str], text: str, cuts: set[int]) -> None:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    expected = reference(stops, text)
    assert run(stops, pieces)[:2] == expected
    assert run(stops, list(text))[:2] == expected


@settings(deadline=None)  # other work may share the processor
@given(stops=st.lists(st.text(alphabet="ab", min_size=1, max_size=5), max_size=4), text=small)
def test_holds_back_no_more_than_needed(stops: list[str], text: str) -> None:
    matcher = StopMatcher(stops)
    sent = ""
    for i, char in enumerate(text):
        out, stop = matcher.feed(char)
        sent += out
        if stop is not None:
            return
        seen = text[: i + 1]
        starts = [k for k in range(len(seen)) if any(s.startswith(seen[k:]) and s != seen[k:] for s in stops)]
        assert sent == seen[: min(starts, default=len(seen))]


@pytest.mark.parametrize(
    ("stops", "pieces", "text", "stop"),
    [
        (["DEFGHIJ"], ["ABC", "DEF", "G", "HI", "J"], "ABC", "DEFGHIJ"),
        (["DEFGHIJ"], ["DEF", "G", "HI", "K"], "DEFGHIK", None),
        (["ab1", "ab2"], ["xa", "b", "2y"], "x", "ab2"),  # a shared prefix
        (["EF"], ["AB", "CDEFGH"], "ABCD", "EF"),  # ends inside a piece
        (["whole"], ["whole"], "", "whole"),
        (["\n"], ["one", "\ntwo"], "one", "\n"),
        (["abcd", "bc"], ["abc", "d"], "", "abcd"),  # the earlier start wins although it ends later
        (["abcd", "bc"], ["abc", "x"], "a", "bc"),
        (["abcd", "bc"], ["abc"], "a", "bc"),  # decided at the end
        (["ab", "abc"], ["abc"], "", "ab"),  # of one start, the first to complete
        (["aab"], ["aaab"], "a", "aab"),
        (["", "x"], ["a", "xb"], "a", "x"),
        ([""], ["abc"], "abc", None),
        ([], ["abc"], "abc", None),
        (["👩‍👧"], ["👩", "\u200d", "👧!"], "", "👩‍👧"),
    ],
)
def test_cases(stops: list[str], pieces: list[str], text: str, stop: str | None) -> None:
    assert run(stops, pieces)[:2] == (text, stop)


def test_nothing_follows_a_match() -> None:
    matcher = StopMatcher(["."])
    assert matcher.feed("a.b") == ("a", ".")
    assert matcher.feed("c") == ("", ".")
    assert matcher.finish() == ("", ".")


def test_text_flows_while_a_stop_is_possible() -> None:
    matcher = StopMatcher(["</end>"])
    assert matcher.feed("a < b and </e") == ("a < b and ", None)
    assert matcher.feed("m>") == ("</em>", None)


def test_a_very_long_stop_is_fast() -> None:
    matcher = StopMatcher(["a" * 20000 + "b"])
    sent = "".join(matcher.feed("a" * 10)[0] for _ in range(4000))
    assert len(sent) == 40000 - 20000
