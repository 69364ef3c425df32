"""Updates to parts: what opens one, what closes it, which text is no part."""

from collections.abc import Iterable

import pytest
from tests.api.updates import CALL_ID, FakeGeneration, call, end, text, thought

from stoker.api.generation import Update
from stoker.api.parts import PartBuilder, build_parts

REPLY = [
    thought("Let me "),
    thought("see."),
    text("\n\n"),
    text("I look."),
    call(0, "look", '{"at":'),
    call(0, None, ' "x"}'),
    text("\n"),
    call(1, "look", "{}"),
    end("tool_calls"),
]


def run(updates: Iterable[Update]) -> tuple[PartBuilder, list[tuple[str, int, str]]]:
    builder = PartBuilder()
    steps = [step for update in updates for step in builder.feed(update)]
    return builder, [(step.action, step.part.index, step.text) for step in steps]


def test_every_part_is_opened_filled_and_closed_before_the_next() -> None:
    builder, steps = run(REPLY)
    assert steps == [
        ("open", 0, ""),
        ("add", 0, "Let me "),
        ("add", 0, "see."),
        ("close", 0, ""),
        ("open", 1, ""),
        ("add", 1, "\n\nI look."),
        ("close", 1, ""),
        ("open", 2, ""),
        ("add", 2, '{"at":'),
        ("add", 2, ' "x"}'),
        ("close", 2, ""),
        ("open", 3, ""),
        ("add", 3, "{}"),
        ("close", 3, ""),
    ]
    assert [(part.kind, part.name) for part in builder.parts] == [
        ("reasoning", ""),
        ("text", ""),
        ("call", "look"),
        ("call", "look"),
    ]
    assert [part.call_id for part in builder.parts[2:]] == [f"{CALL_ID}0", f"{CALL_ID}1"]
    assert builder.finish_reason == "tool_calls"


def test_one_update_with_everything_keeps_the_order() -> None:
    (_, _, _, _, first_call, *_) = REPLY
    update = Update(0, "Text.", reasoning="Thought.", tool_calls=first_call.tool_calls)
    builder, _ = run([update, end()])
    assert [(part.kind, part.text) for part in builder.parts] == [
        ("reasoning", "Thought."),
        ("text", "Text."),
        ("call", '{"at":'),
    ]


@pytest.mark.parametrize("blank", ["", " ", "\n\n"])
def test_blank_text_beside_other_parts_is_no_part(blank: str) -> None:
    builder, _ = run([text(blank), call(0, "f", "{}"), text(blank), end("tool_calls")])
    assert [part.kind for part in builder.parts] == ["call"]


def test_blank_text_alone_is_the_reply() -> None:
    builder, steps = run([text(" "), text("\n"), end()])
    assert [part.text for part in builder.parts] == [" \n"]
    assert [step[0] for step in steps] == ["open", "add", "close"]
    assert run([end()])[0].parts == []


def test_a_failure_closes_what_is_open() -> None:
    builder, _ = run([text("half")])
    steps = []
    builder.close(steps)
    builder.close(steps)
    assert [step.action for step in steps] == ["close"]


async def test_build_parts_reads_a_generation_to_its_end() -> None:
    builder = await build_parts(FakeGeneration(REPLY), PartBuilder())
    assert len(builder.parts) == 4
