"""Every family's calls, whole, cut at every place, and in odd company (B01, B03, B05, B09)."""

from __future__ import annotations

import pytest
from tests.chat.readings import THINK, TOOLS, Result, read, reading
from tests.chat.tools.good import GOOD, Good

from stoker.chat.reader import ReplyReader
from stoker.chat.reading import ReplyReading
from stoker.chat.tools import FORMATS

IDS = [f"{number}-{good.format}" for number, good in enumerate(GOOD)]


def test_every_format_has_examples() -> None:
    assert {good.format for good in GOOD} == set(FORMATS)


@pytest.mark.parametrize("good", GOOD, ids=IDS)
def test_whole(good: Good) -> None:
    assert read(reading(good.format), [good.reply]) == Result(good.text, "", good.calls)


@pytest.mark.parametrize("good", GOOD, ids=IDS)
def test_cut_at_every_place(good: Good) -> None:
    how = reading(good.format)
    expected = Result(good.text, "", good.calls)
    assert read(how, good.reply) == expected  # one character at a time
    for at in range(1, len(good.reply)):
        assert read(how, [good.reply[:at], good.reply[at:]]) == expected, good.reply[:at]


# Without bare JSON, which is a call only where it is the answer, and Python, which has no end mark.
IN_THOUGHT = [
    good
    for good in GOOD
    if good.format != "harmony" and not good.text and not good.reply.startswith(("{", "<|python_tag|>get"))
]


@pytest.mark.parametrize("good", IN_THOUGHT, ids=lambda good: good.format)
def test_b09_a_call_before_thinking_is_closed(good: Good) -> None:
    how = ReplyReading(reasoning=THINK, starts_inside=True, tool_format=good.format, tools=TOOLS)
    assert read(how, "I need it.\n" + good.reply) == Result("", "I need it.", good.calls)
    closed = read(how, "I need it.\n" + good.reply + "\n</think>\n\nDone.")
    assert closed == Result("Done.", "I need it.", good.calls)


@pytest.mark.parametrize("good", GOOD, ids=IDS)
def test_parallel_false_keeps_the_first(good: Good) -> None:
    result = read(reading(good.format, parallel=False), good.reply)
    assert result.calls == good.calls[:1]


@pytest.mark.parametrize("good", GOOD, ids=IDS)
def test_b07_none_drops_calls_and_markup(good: Good) -> None:
    result = read(reading(good.format, drop_calls=True), good.reply)
    assert result == Result(good.text, "", [])


@pytest.mark.parametrize("good", GOOD, ids=IDS)
def test_a_tool_that_was_not_offered_stays_text(good: Good) -> None:
    how = ReplyReading(
        reasoning=THINK,
        is_harmony=good.format == "harmony",
        tool_format=good.format,
        tools=(TOOLS[0].__class__("other", {}),),
    )
    result = read(how, good.reply)
    assert result.calls == []
    for name, _ in good.calls:
        if good.format != "harmony":  # there the name is in the frame, which is never text
            assert name in result.text
    assert read(how, [good.reply]) == result


def test_arguments_stream_as_they_come() -> None:
    reader = ReplyReader(reading("hermes"))
    assert reader.feed('<tool_call>\n{"name": "get_weather", "argu') == []
    begin, first = reader.feed('ments": {"city": "Par')
    assert (begin.index, begin.name, first.arguments) == (0, "get_weather", '{"city": "Par')
    assert begin.id is not None
    assert first.id is None
    (second,) = reader.feed('is"}')
    assert second.arguments == 'is"}'
    assert reader.feed("}\n</tool_call>") == []
    assert reader.calls.num_calls == 1
    assert not reader.calls.is_cut


def test_a_call_cut_short_is_marked() -> None:
    reader = ReplyReader(reading("hermes"))
    reader.feed('<tool_call>{"name": "get_weather", "arguments": {"city": "Par')
    (end,) = reader.finish()
    assert end.arguments == '"}'
    assert reader.calls.is_cut


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "harmony"])
@pytest.mark.parametrize(
    "text",
    [
        "Just text with 1 < 2, {braces} and [brackets].\n\n",
        '{"answer": [1, 2, {"name": 3}], "name": "x"}',
        '{"name": "Paris", "population": 2}',
        " \n leading and trailing \n ",
        "```python\nprint('x')\n```\n",
        "",
        "\n",
    ],
)
def test_text_passes_unchanged(name: str, text: str) -> None:
    assert read(reading(name), text) == Result(text, "", [])
    assert read(reading(name), [text]) == Result(text, "", [])


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "harmony"])
def test_a_marker_alone_is_text(name: str) -> None:
    for marker in FORMATS[name].markers:
        text = f"Use {marker} for calls, then say what."
        assert read(reading(name), text).calls == []
        assert read(reading(name), text).text == text


def test_harmony_channels() -> None:
    reply = (
        "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>commentary<|message|>Wait."
        "<|end|><|start|>assistant<|channel|>final<|message|>Answer <b> & more.<|return|>"
    )
    expected = Result("Wait.Answer <b> & more.", "Think.", [])
    assert read(reading("harmony"), reply) == expected
    assert read(reading("harmony"), [reply]) == expected
    assert read(reading("harmony"), ["No frame at all."]) == Result("No frame at all.", "", [])
    assert read(reading("harmony"), "<|channel|>analysis<|message|>cut") == Result("", "cut", [])
