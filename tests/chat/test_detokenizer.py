from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.chat.detokenizer import Detokenizer

from . import toys


def test_each_byte_alone() -> None:
    detokenizer = Detokenizer()
    out = [detokenizer.feed(bytes([byte])) for byte in toys.SCRIPT.encode()]
    assert "".join(out) == toys.SCRIPT
    assert all(len(piece) <= 1 for piece in out)
    assert detokenizer.num_held_bytes == 0


@settings(deadline=None)  # other work may share the processor
@given(text=st.text(max_size=30), cuts=st.lists(st.integers(0, 120)))
def test_any_cut_gives_the_same_text(text: str, cuts: list[int]) -> None:
    data = text.encode()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    detokenizer = Detokenizer()
    out = [detokenizer.feed(data[a:b]) for a, b in itertools.pairwise(edges)]
    assert "".join(out) == text


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_cut_tail_is_dropped(cut: int) -> None:
    detokenizer = Detokenizer()
    assert detokenizer.feed(b"ok" + "🌍".encode()[:cut]) == "ok"
    assert detokenizer.num_held_bytes == cut


@settings(deadline=None)  # other work may share the processor
@given(data=st.binary(max_size=30), cut=st.integers(0, 30))
def test_invalid_bytes_are_replaced_as_python_does(data: bytes, cut: int) -> None:
    detokenizer = Detokenizer()
    out = detokenizer.feed(data[:cut]) + detokenizer.feed(data[cut:])
    # Followed by a plain character, so that nothing is left open at the end.
    out += detokenizer.feed(b"x")
    assert out == (data + b"x").decode("utf-8", errors="replace")


def test_invalid_byte_in_the_middle() -> None:
    assert Detokenizer().feed(b"a\xffb\xe4\xbdc") == "a\ufffdb\ufffdc"
