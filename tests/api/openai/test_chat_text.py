"""What a chat reply says: stop strings, Unicode, log-probabilities; streamed and whole alike."""

from typing import Any

import pytest
from tests.api.fronts import Front, make_front
from tests.api.openai.chats import CHAT as PATH
from tests.api.openai.chats import ask, error_of, streamed, whole
from tests.fakes import FIRST_PIECE, IM_END, byte_text_model, text_script

# Stop strings over token pieces


@pytest.mark.parametrize(
    ("pieces", "stop", "text"),
    [
        (["ABC", "DEF", "G", "HI", "J", "KLM"], "DEFGHIJ", "ABC"),
        (["ABC", "DEF", "G", "HI", "J", "KLM"], "EFG", "ABCD"),  # begins and ends inside tokens
        (["ABC", "DEF", "G", "HI", "J", "KLM"], ["DEFX", "DEFGHIX", "DEFGHIJ"], "ABC"),  # shared prefix
        (["ABC", "DEF", "G", "HI", "J", "KLM"], ["HIJ", "CDE"], "AB"),  # the earlier one wins
        (["ABC"], "ABC", ""),  # the whole output
        (["one", "\n", "two"], "\n", "one"),
        (["one", "\n\n", "two"], "\n", "one"),
        (["aa", "aab"], "aab", "aa"),  # a false start
        (["ABC", "DEF"], "", "ABCDEF"),  # an empty stop never matches
    ],
)
async def test_stops(pieces: list[str], stop: Any, text: str) -> None:
    script = [FIRST_PIECE + number for number in range(len(pieces))]
    front = make_front([*script, IM_END], text=byte_text_model(pieces))
    assert await whole(front, stop=stop) == (text, "stop", [])
    streamed_text, reason, _, _ = await streamed(front, stop=stop)
    assert (streamed_text, reason) == (text, "stop")


async def test_a_matched_stop_frees_the_row() -> None:
    front = make_front(
        lambda request, index: text_script("x" * index * 10 + "STOP" + "y" * 1000), step_s=0.0005
    )
    reply = (await front.post(PATH, ask(n=3, stop="STOP"))).json()
    assert [c["message"]["content"] for c in reply["choices"]] == ["", "x" * 10, "x" * 20]
    assert front.engine.counters.steps < 100
    assert front.engine.counters.active_rows == 0


async def test_text_held_back_for_a_stop_comes_at_the_end() -> None:
    front = make_front(text_script("abcDEF"))
    assert (await whole(front, stop="DEFG"))[:2] == ("abcDEF", "stop")
    assert (await streamed(front, stop="DEFG"))[:2] == ("abcDEF", "stop")


# Unicode

FAMILY = "ď 你好 🌍 👩‍👩‍👧"


@pytest.mark.parametrize("logprobs", [False, True])
async def test_characters_are_never_split(logprobs: bool) -> None:
    front = make_front(text_script(FAMILY))
    text, reason, entries, deltas = await streamed(front, logprobs=logprobs)
    assert (text, reason) == (FAMILY, "stop")
    assert all("\ufffd" not in delta for delta in deltas)
    assert (await whole(front, logprobs=logprobs))[0] == FAMILY
    if logprobs:
        assert bytes(byte for entry in entries for byte in entry["bytes"]) == FAMILY.encode()


@pytest.mark.parametrize("max_tokens", range(1, 12))
async def test_a_budget_that_ends_inside_a_character(max_tokens: int) -> None:
    front = make_front(text_script("🌍你é!"))
    text, reason, _, _ = await streamed(front, max_tokens=max_tokens)
    assert "\ufffd" not in text
    assert "🌍你é!".startswith(text)
    assert (text, reason) == (await whole(front, max_tokens=max_tokens))[:2]


# Log-probabilities


async def test_logprobs_alone(front: Front) -> None:
    text, _, entries = await whole(front, logprobs=True)
    assert [entry["token"] for entry in entries] == list(text)
    assert entries[0] == {"id": 72, "token": "H", "logprob": -0.5, "bytes": [72], "top_logprobs": []}


@pytest.mark.parametrize("top", [1, 5, 20])
@pytest.mark.parametrize("logprobs", [None, True])
async def test_top_logprobs(front: Front, top: int, logprobs: bool | None) -> None:
    text, _, entries = await whole(front, logprobs=logprobs, top_logprobs=top)
    assert len(entries) == len(text) == 12  # the end of the turn is not part of the text
    for entry in entries:
        assert len(entry["top_logprobs"]) == top
        values = [candidate["logprob"] for candidate in entry["top_logprobs"]]
        assert values == sorted(values, reverse=True)
        assert all(value <= 0 for value in values)
        assert set(entry["top_logprobs"][0]) == {"id", "token", "logprob", "bytes"}
    assert (await streamed(front, logprobs=logprobs, top_logprobs=top))[2] == entries


async def test_top_logprobs_zero(front: Front) -> None:
    assert len((await whole(front, logprobs=True, top_logprobs=0))[2]) == 12
    for off in ({}, {"logprobs": False}, {"top_logprobs": 0}, {"top_logprobs": -1}, {"logprobs": None}):
        choice = (await front.post(PATH, ask(**off))).json()["choices"][0]
        assert choice["logprobs"] is None


async def test_logprobs_of_a_reply_cut_by_a_stop() -> None:
    front = make_front(text_script("abcSTOPdef"))
    text, _, entries = await whole(front, logprobs=True, stop="STOP")
    assert (text, [e["token"] for e in entries]) == ("abc", ["a", "b", "c"])
    assert (await streamed(front, logprobs=True, stop="STOP"))[2] == entries


async def test_logprobs_refusals(front: Front) -> None:
    assert await error_of(front, logprobs=1) == "logprobs must be of type bool"
    assert await error_of(front, top_logprobs="1") == "top_logprobs must be of type int"
    assert await error_of(front, top_logprobs=21) == "top_logprobs must be at most 20"
    assert await error_of(front, top_logprobs=-2) == "top_logprobs must be at least 0"
    assert await error_of(front, top_logprobs=5, logprobs=False) == "top_logprobs needs logprobs to be true"
