"""Faults B17, B19, B21 and B36 at the level of one reply, with scripted tokens."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.chat.reading import ReplyReading
from stoker.chat.reply import LOWEST_LOGPROB, LogprobEntry, ReplyAssembler
from stoker.chat.tokenizer import Tokenizer
from stoker.core import Alternative, TokenEvent

from . import toys

THINKS = ReplyReading(reasoning=("<think>", "</think>"))
INSIDE = ReplyReading(reasoning=("<think>", "</think>"), starts_inside=True)
WORDS = ("DEF", "HI", "</", "think", "xS", "TOPy", "STO", "你好", "ab", "a<think>")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return toys.chatml_tokenizer(words=WORDS)


def run(
    assembler: ReplyAssembler, events: list[TokenEvent], reason: str = "length"
) -> tuple[list[str], list[LogprobEntry], str | None]:
    """Text deltas, entries and the stop, as a server collects them."""
    deltas = []
    for event in events:
        deltas.append(assembler.push(event))
        if deltas[-1].stopped is not None:
            break
    else:
        deltas.append(assembler.finish(reason))
    return (
        [delta.text for delta in deltas],
        [entry for delta in deltas for entry in delta.logprobs],
        deltas[-1].stopped,
    )


@pytest.mark.parametrize(
    ("pieces", "stops", "text", "stopped", "num_tokens"),
    [
        (["A", "B", "C", "DEF", "G", "HI", "J", "K"], ("DEFGHIJ",), "ABC", "DEFGHIJ", 7),
        (["DEF", "G", "HI", "J"], ("DEFGHIJ", "DEFX"), "", "DEFGHIJ", 4),  # a shared prefix
        (["DEF", "G", "HI", "K"], ("DEFGHIJ", "DEFX"), "DEFGHIK", None, 4),
        (["A", "DEF", "G"], ("E",), "AD", "E", 2),  # ends inside a token
        (["DEF"], ("DEF",), "", "DEF", 1),  # equal to the whole output
        (["A", "\n", "B"], ("\n",), "A", "\n", 2),
    ],
)
def test_b17_stop_over_tokens(
    tokenizer: Tokenizer,
    pieces: list[str],
    stops: tuple[str, ...],
    text: str,
    stopped: str | None,
    num_tokens: int,
) -> None:
    assembler = ReplyAssembler(tokenizer, stops)
    deltas, _, stop = run(assembler, toys.events(tokenizer, pieces))
    assert "".join(deltas) == text
    assert stop == stopped == assembler.stopped
    assert assembler.num_tokens == num_tokens
    for size in range(len(deltas)):
        assert text.startswith("".join(deltas[:size]))  # no part of a stop is ever sent


def test_tokens_after_a_stop_are_not_counted(tokenizer: Tokenizer) -> None:
    assembler = ReplyAssembler(tokenizer, ("B",))
    for event in toys.events(tokenizer, ["A", "B", "C"]):
        last = assembler.push(event)
    assert (last.text, last.stopped, assembler.num_tokens) == ("", "B", 2)
    assert assembler.push(TokenEvent(0, 2, is_eos=True)).stopped == "B"
    assert assembler.finish("stop").text == ""
    assert assembler.num_tokens == 2


def test_a_stop_decided_at_the_end(tokenizer: Tokenizer) -> None:
    assembler = ReplyAssembler(tokenizer, ("DEFX", "E"))
    deltas, _, stop = run(assembler, toys.events(tokenizer, ["A", "DEF"]), reason="length")
    assert ("".join(deltas), stop) == ("AD", "E")


def test_held_text_comes_at_the_end(tokenizer: Tokenizer) -> None:
    assembler = ReplyAssembler(tokenizer, ("DEFGHIJ",))
    deltas, _, stop = run(assembler, toys.events(tokenizer, ["A", "DEF", "G"]), reason="stop")
    assert (deltas, stop) == (["A", "", "", "DEFG"], None)


KINDS = {
    "byte_level": lambda: Tokenizer(toys.byte_level()),
    "llama2": lambda: Tokenizer(toys.sentencepiece(prepend=True)),
    "gemma": lambda: Tokenizer(toys.sentencepiece(prepend=False)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_b19_characters_are_never_cut(kind: str) -> None:
    tokenizer = KINDS[kind]()
    text = toys.SCRIPT + " x"
    ids = tokenizer.encode("x " + text, add_special=False)[-len(tokenizer.encode(text, add_special=False)) :]
    scripted = [TokenEvent(0, i, logprob=-0.5) for i in ids]
    assert any(b"\xf0\x9f" not in tokenizer.token_bytes(i) for i in ids)
    deltas, entries, _ = run(ReplyAssembler(tokenizer, want_logprobs=True), scripted)
    assert "\ufffd" not in "".join(deltas)
    assert all(delta.encode() for delta in deltas if delta)  # no lone surrogates
    assert "".join(deltas).lstrip() == text
    assert len(deltas) > 5
    assert [entry.id for entry in entries] == ids
    assert b"".join(bytes(entry.bytes or ()) for entry in entries).decode() == "".join(deltas)


def test_b19_cut_by_max_tokens(tokenizer: Tokenizer) -> None:
    cut = "🌍".encode()[:3]
    scripted = toys.events(tokenizer, [b"A", *(bytes([b]) for b in cut)], logprob=-0.1)
    deltas, entries, _ = run(ReplyAssembler(tokenizer, want_logprobs=True), scripted)
    assert "".join(deltas) == "A"
    assert [entry.token for entry in entries] == ["A"]  # the cut tail is no part of the text


def test_entries_come_with_their_text(tokenizer: Tokenizer) -> None:
    assembler = ReplyAssembler(tokenizer, ("STOP",), want_logprobs=True)
    pieces = [b"A", b"S", b"T", b"x", *(bytes([b]) for b in "é".encode())]
    deltas = [assembler.push(event) for event in toys.events(tokenizer, pieces, logprob=-1.0)]
    assert [delta.text for delta in deltas] == ["A", "", "", "STx", "", "é"]
    assert [[entry.token for entry in delta.logprobs] for delta in deltas] == [
        ["A"], [], [], ["S", "T", "x"], [], ["\ufffd", "\ufffd"],
    ]  # fmt: skip
    assert [entry.bytes for entry in deltas[-1].logprobs] == [[0xC3], [0xA9]]


def test_entries_of_a_stop_are_dropped(tokenizer: Tokenizer) -> None:
    """`xS` begins in the text and stays; what lies in the stop or behind it goes."""
    scripted = toys.events(tokenizer, ["A", "xS", "TOPy"], logprob=-1.0)
    deltas, entries, stop = run(ReplyAssembler(tokenizer, ("STOP",), want_logprobs=True), scripted)
    assert ("".join(deltas), stop) == ("Ax", "STOP")
    assert [entry.token for entry in entries] == ["A", "xS"]
    scripted = toys.events(tokenizer, ["A", "STO", "P", "B"], logprob=-1.0)
    _, entries, _ = run(ReplyAssembler(tokenizer, ("STOP",), want_logprobs=True), scripted)
    assert [entry.token for entry in entries] == ["A"]


def test_b21_shape_of_entries(tokenizer: Tokenizer) -> None:
    token = toys.events(tokenizer, ["A"])[0].token_id
    event = TokenEvent(0, token, logprob=-2.5, top=(Alternative(2, -0.1), Alternative(token, -2.5)))
    assembler = ReplyAssembler(tokenizer, want_logprobs=True)
    (entry,) = assembler.push(event).logprobs
    assert (entry.id, entry.token, entry.logprob, entry.bytes) == (token, "A", -2.5, [65])
    assert [(top.id, top.token, top.logprob) for top in entry.top_logprobs] == [
        (2, "<|im_end|>", -0.1),
        (token, "A", -2.5),
    ]
    (entry,) = assembler.push(TokenEvent(0, token, logprob=-0.5)).logprobs
    assert entry.top_logprobs == []


def test_logprobs_are_finite_and_not_positive(tokenizer: Tokenizer) -> None:
    token = toys.events(tokenizer, ["A"])[0].token_id
    event = TokenEvent(0, token, logprob=1e-7, top=(Alternative(token, 1e-7), Alternative(2, -math.inf)))
    (entry,) = ReplyAssembler(tokenizer, want_logprobs=True).push(event).logprobs
    assert entry.logprob == 0.0
    assert [top.logprob for top in entry.top_logprobs] == [0.0, LOWEST_LOGPROB]


def test_eos_and_special_tokens_have_no_text_and_no_entry(tokenizer: Tokenizer) -> None:
    assembler = ReplyAssembler(tokenizer, want_logprobs=True)
    scripted = [*toys.events(tokenizer, ["A"], -0.1), TokenEvent(0, 1, logprob=-0.1)]
    deltas, entries, _ = run(
        assembler, [*scripted, TokenEvent(0, 2, is_eos=True, logprob=-0.1)], reason="stop"
    )
    assert "".join(deltas) == "A"
    assert [entry.token for entry in entries] == ["A"]
    assert assembler.num_tokens == 3  # the stopping EOS is billed


def test_an_eos_that_is_plain_text_is_hidden(tokenizer: Tokenizer) -> None:
    newline = toys.events(tokenizer, ["\n"])[0].token_id
    assembler = ReplyAssembler(tokenizer)
    assert assembler.push(TokenEvent(0, newline, is_eos=True)).text == ""
    assert assembler.finish("stop").text == ""


def test_no_entries_unless_wanted(tokenizer: Tokenizer) -> None:
    assert not ReplyAssembler(tokenizer).push(toys.events(tokenizer, ["A"], -0.1)[0]).logprobs


PIECES = st.lists(st.sampled_from(["a", "b", "ab", "S", "STO", "TOPy", "xS", "P", "你好"]), max_size=12)


@settings(deadline=None)  # other work may share the processor
@given(pieces=PIECES, stops=st.lists(st.sampled_from(["STOP", "ab", "ba", "好x", "b"]), max_size=3))
def test_text_and_entries_equal_the_whole_text_reference(
    tokenizer: Tokenizer, pieces: list[str], stops: list[str]
) -> None:
    whole = "".join(pieces)
    found = [(whole.find(s), len(s)) for s in stops if s in whole]
    text = whole[: min(found)[0]] if found else whole
    starts = [sum(map(len, pieces[:i])) for i in range(len(pieces))]
    expected = [piece for piece, start in zip(pieces, starts, strict=True) if start < len(text)]
    assembler = ReplyAssembler(tokenizer, stops, want_logprobs=True)
    deltas, entries, _ = run(assembler, toys.events(tokenizer, pieces, logprob=-1.0))
    assert "".join(deltas) == text
    assert [entry.token for entry in entries] == expected


# --- reasoning (B36) --------------------------------------------------------------------------------


def collect(assembler: ReplyAssembler, events: list[TokenEvent], reason: str = "length") -> tuple[str, str]:
    deltas = [assembler.push(event) for event in events] + [assembler.finish(reason)]
    return "".join(delta.reasoning for delta in deltas), "".join(delta.text for delta in deltas)


def test_b36_a_thought_that_is_never_closed(tokenizer: Tokenizer) -> None:
    scripted = toys.events(tokenizer, ["ab", " ", "HI", "<"])
    assembler = ReplyAssembler(tokenizer, reading=INSIDE)
    assert collect(assembler, scripted) == ("ab HI<", "")


def test_b36_a_full_one(tokenizer: Tokenizer) -> None:
    scripted = toys.events(tokenizer, ["ab", "</", "think", ">", "HI"])
    assembler = ReplyAssembler(tokenizer, reading=INSIDE)
    assert collect(assembler, scripted) == ("ab", "HI")


def test_stops_are_not_matched_in_reasoning(tokenizer: Tokenizer) -> None:
    scripted = toys.events(tokenizer, ["ab", "</", "think", ">", "x", "ab", "y"], logprob=-1.0)
    assembler = ReplyAssembler(tokenizer, ("ab",), want_logprobs=True, reading=INSIDE)
    deltas = [assembler.push(event) for event in scripted]
    assert "".join(delta.reasoning for delta in deltas) == "ab"
    assert "".join(delta.text for delta in deltas) == "x"
    assert assembler.stopped == "ab"
    entries = [entry.token for delta in deltas for entry in delta.logprobs]
    assert entries == ["ab", "</", "think", ">", "x"]


def test_a_stop_does_not_reach_across_a_thinking_block(tokenizer: Tokenizer) -> None:
    scripted = toys.events(tokenizer, ["a<think>", "b", "</", "think", ">", "b"], logprob=-1.0)
    assembler = ReplyAssembler(tokenizer, ("ab",), want_logprobs=True, reading=THINKS)
    assert collect(assembler, scripted) == ("b", "ab")


def test_entries_wait_for_text_held_before_a_tag(tokenizer: Tokenizer) -> None:
    scripted = toys.events(tokenizer, ["a", "<", "think", ">", "b"], logprob=-1.0)
    assembler = ReplyAssembler(tokenizer, ("ab",), want_logprobs=True, reading=THINKS)
    deltas = [assembler.push(event) for event in scripted]
    assert [delta.text for delta in deltas] == ["", "", "", "", "a"]
    assert [len(delta.logprobs) for delta in deltas] == [0, 0, 0, 0, 5]


def test_tags_that_are_special_tokens() -> None:
    backend = toys.byte_level(special=["<|im_end|>", "<think>", "</think>"])
    tokenizer = Tokenizer(backend)
    scripted = toys.events(tokenizer, ["<think>", "a", "</think>", "b"])
    assert collect(ReplyAssembler(tokenizer, reading=THINKS), scripted) == ("a", "b")
    assert collect(ReplyAssembler(tokenizer), scripted) == ("", "ab")
