"""Families that write arguments as elements: strings stream, and no cut changes what comes of a text."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.chat.readings import Result, read, reading

from stoker.chat.calls import ToolCallDelta, join_deltas
from stoker.chat.reader import ReplyReader
from stoker.chat.segments import Piece

Write = Callable[[str, dict[str, str]], str]


def qwen(name: str, texts: dict[str, str]) -> str:
    inner = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in texts.items())
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


def seed(name: str, texts: dict[str, str]) -> str:
    inner = "".join(f"<parameter={k}>{v}</parameter>\n" for k, v in texts.items())
    return f"<seed:tool_call>\n<function={name}>\n{inner}</function>\n</seed:tool_call>"


def glm(name: str, texts: dict[str, str]) -> str:
    inner = "".join(f"<arg_key>{k}</arg_key>\n<arg_value>{v}</arg_value>\n" for k, v in texts.items())
    return f"<tool_call>{name}\n{inner}</tool_call>"


def minimax(name: str, texts: dict[str, str]) -> str:
    inner = "".join(f'<parameter name="{k}">{v}</parameter>\n' for k, v in texts.items())
    return f'<minimax:tool_call>\n<invoke name="{name}">\n{inner}</invoke>\n</minimax:tool_call>'


def deepseek(name: str, texts: dict[str, str]) -> str:
    p = "｜DSML｜"
    kind = {k: str(k in ("path", "text", "city")).lower() for k in texts}
    inner = "".join(
        f'<{p}parameter name="{k}" string="{kind[k]}">{v}</{p}parameter>\n' for k, v in texts.items()
    )
    return f'<{p}function_calls>\n<{p}invoke name="{name}">\n{inner}</{p}invoke>\n</{p}function_calls>'


def minicpm(name: str, texts: dict[str, str]) -> str:
    inner = "".join(f'<param name="{k}"><![CDATA[{v}]]></param>' for k, v in texts.items())
    return f'<function name="{name}">{inner}</function>'


FAMILIES: dict[str, Write] = {
    "qwen_xml": qwen,
    "seed": seed,
    "glm": glm,
    "minimax": minimax,
    "deepseek_v3_2": deepseek,
    "minicpm": minicpm,
}


def deltas(name: str, pieces: Iterable[str]) -> list[list[ToolCallDelta]]:
    """What each piece brings, and `finish` last."""
    reader = ReplyReader(reading(name))
    made: list[list[Piece]] = [reader.feed(piece) for piece in pieces]
    made.append(reader.finish())
    return [[d for d in step if isinstance(d, ToolCallDelta)] for step in made]


def arguments(name: str, pieces: Iterable[str]) -> list[str]:
    return [call.arguments for call in join_deltas(list(itertools.chain(*deltas(name, pieces))))]


@pytest.mark.parametrize("name", FAMILIES)
def test_strings_stream_as_they_come(name: str) -> None:
    words = [f"word{number} " for number in range(50)]
    reply = FAMILIES[name]("write_file", {"path": "a.txt", "text": "@"})
    before, after = reply.split("@")
    steps = deltas(name, [before, *words, after])
    assert [d.name for step in steps for d in step if d.name] == ["write_file"]
    told = "".join(d.arguments for d in steps[0])
    assert told.startswith('{"path": "a.txt", "text": ')
    for number, step in enumerate(steps[1:51]):
        told += "".join(d.arguments for d in step)
        assert told.endswith(words[number])
    assert "".join(d.arguments for d in steps[51]) == '"}'


@pytest.mark.parametrize("name", FAMILIES)
def test_other_types_wait_for_their_end(name: str) -> None:
    reply = FAMILIES[name]("get_weather", {"city": "Paris", "days": "12@3"})
    before, after = reply.split("@")
    first, second, _ = deltas(name, [before, after])
    assert "".join(d.arguments for d in first).endswith('"Paris", "days": ')
    assert "".join(d.arguments for d in second) == "123}"


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("word", ["null", "nullable", "nu", " null ", "", "None"])
def test_a_string_that_may_be_null(name: str, word: str) -> None:
    reply = FAMILIES[name]("write_file", {"path": "null", "text": word})
    # DeepSeek's tags say themselves that a value is text.
    is_null = word.strip() == "null" and name != "deepseek_v3_2"
    expected = Result("", "", [("write_file", {"path": "null", "text": None if is_null else word})])
    assert read(reading(name), [reply]) == expected
    assert read(reading(name), reply) == expected


# Pieces of markup, none of which ends the value by itself.
INSIDE = [
    "<",
    ">",
    "</",
    "\n",
    "\r\n",
    " ",
    "&",
    "&lt;",
    "&amp",
    "a",
    "é🌍",
    '"',
    "\\",
    "null",
    "<b>",
    "{",
    "}",
    "]]",
]
INSIDE += [
    "<parameter",
    "<parameter=",
    "<parameter=unknown>",
    "</param",
    "<arg_key",
    "</arg",
    "<function=",
    "</func",
]
INSIDE += ["<tool_call>", "<think>", "<![CDATA", "｜DSML｜", "<｜DSML｜", "<seed:", "</minimax:tool_call"]


@settings(deadline=None, max_examples=300)
@given(
    name=st.sampled_from(sorted(FAMILIES)),
    path=st.lists(st.sampled_from(INSIDE), max_size=4).map("".join),
    text=st.lists(st.sampled_from(INSIDE) | st.text(max_size=3), max_size=12).map("".join),
    cuts=st.sets(st.integers(1, 400), max_size=8),
)
def test_any_string_comes_through_any_cut(name: str, path: str, text: str, cuts: set[int]) -> None:
    assume("</param>" not in path + text)  # with another argument behind it, that is an end
    value = {"path": path, "text": "." + text + ".", "tags": ["a", 1], "meta": {"<k>": None}}
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in value.items()}
    reply = FAMILIES[name]("write_file", texts)
    places = [0, *sorted(cut for cut in cuts if cut < len(reply)), len(reply)]
    whole = arguments(name, [reply])
    assert [json.loads(made) for made in whole] == [value]
    assert arguments(name, [reply[start:end] for start, end in itertools.pairwise(places)]) == whole
    assert arguments(name, reply) == whole


SEE = "see </parameter> and </function> and </arg_value> and </invoke>, then"


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("qwen_xml", SEE),
        ("qwen_xml", "a\n</parameter>\n</function>\nmore"),  # a whole end, but nothing follows from it
        ("qwen_xml", "a\n</function>\nmore"),
        ("qwen_xml", "a\n</tool_call>\nmore"),
        ("qwen_xml", "a\n<parameter=nothing>\nmore"),
        ("qwen_xml", "a <parameter=text> b"),
        ("qwen_xml", "<![CDATA[ never closed"),
        ("seed", SEE),
        ("seed", "</seed:tool_call> x"),
        ("glm", SEE),
        ("glm", "a</tool_call>b"),
        ("glm", "<arg_key>nothing</arg_key>"),
        ("minimax", SEE),
        ("minimax", "</invoke>!</minimax:tool_call>!"),
        ("deepseek_v3_2", SEE),
        ("minicpm", SEE + "</param></function>"),
    ],
)
def test_values_may_hold_their_own_markup(name: str, inside: str) -> None:
    value = {"path": "p", "text": inside}
    reply = FAMILIES[name]("write_file", value) + FAMILIES[name]("now", {})
    expected = Result("", "", [("write_file", value), ("now", {})])
    assert read(reading(name), [reply]) == expected
    assert read(reading(name), reply) == expected


WRITE = "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</parameter>\n"


@pytest.mark.parametrize(
    ("reply", "text", "calls"),
    [
        # the block's end is missing, prose follows
        (WRITE + "</function>\n\nThat is it.", "That is it.", [("write_file", {"path": "a"})]),
        # the same, and then a call that is whole
        (
            WRITE + "</function>\n\nNow the time.\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
            "Now the time.",
            [("write_file", {"path": "a"}), ("now", {})],
        ),
        # neither the argument nor the function is closed
        (
            "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</tool_call>\nDone.",
            "Done.",
            [("write_file", {"path": "a"})],
        ),
        (
            "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
            "",
            [("write_file", {"path": "a"}), ("now", {})],
        ),
        # two functions in one block, the first without its end
        (
            WRITE + "<function=now>\n</function>\n</tool_call>",
            "",
            [("write_file", {"path": "a"}), ("now", {})],
        ),
        # the second is not offered
        (
            WRITE + "</function>\n<function=rm>\n</function>\n</tool_call>",
            "<function=rm>\n</function>\n</tool_call>",
            [("write_file", {"path": "a"})],
        ),
    ],
)
def test_ends_that_are_missing(reply: str, text: str, calls: list[tuple[str, Any]]) -> None:
    expected = Result(text, "", calls)
    whole = read(reading("qwen_xml"), [reply])
    assert (whole.calls, whole.text) == (expected.calls, expected.text)
    assert read(reading("qwen_xml"), reply) == whole


@pytest.mark.parametrize("name", FAMILIES)
def test_cut_anywhere_it_is_a_call_marked_as_cut_or_text(name: str) -> None:
    value = {"path": "/tmp/x", "text": "one\ntwo <b> three"}
    reply = FAMILIES[name]("write_file", value)
    for size in range(len(reply) - len("</function>") + 1):
        reader = ReplyReader(reading(name))
        made = [*reader.feed(reply[:size]), *reader.finish()]
        (call,) = join_deltas([d for d in made if isinstance(d, ToolCallDelta)]) or (None,)
        if call is None:
            continue
        found = json.loads(call.arguments)
        assert value["path"].startswith(found.get("path", ""))
        assert value["text"].startswith(found.get("text", "") or "")
        assert reader.calls.is_cut or found == value
