"""The structured output fields: which one wins, what becomes of it, what degrades and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.api.fronts import Front, make_front
from tests.api.openai.chats import CHAT, HI, ask
from tests.fakes import byte_text_model

from stoker.api.openai.chat.thinking import after_thinking
from stoker.api.openai.structured import format_wish
from stoker.app import grammar_vocabulary
from stoker.chat.reader import reading_for
from stoker.core import Constraint
from stoker.engine.grammar import GrammarCompiler

SCHEMA = {"type": "object", "properties": {"z": {"type": "integer"}, "ä": {}}, "required": ["z"]}
UNSUPPORTED = {"type": "array", "uniqueItems": True}


@pytest.fixture(scope="module")
def front() -> Front:
    grammars = GrammarCompiler(lambda: grammar_vocabulary(byte_text_model().tokenizer))
    return make_front(compile_constraint=grammars.compile)


def json_schema(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, **more}}


def of_schema(schema: Any = SCHEMA, **more: Any) -> Constraint:
    return Constraint("json_schema", json.dumps(schema, ensure_ascii=False), **more)


async def constraint_of(front: Front, path: str = CHAT, **fields: Any) -> Constraint | None:
    body = ask(**fields) if path == CHAT else {"prompt": "x", **fields}
    response = await front.post(path, body)
    assert response.status_code == 200, response.text
    assert "warning" not in response.headers, response.headers["warning"]
    return front.engine.requests[-1].constraint


FIELDS: list[tuple[dict[str, Any], Constraint | None]] = [
    ({"response_format": {"type": "text"}}, None),
    ({"response_format": None, "guided_regex": None}, None),
    ({"response_format": {"type": "json_object"}}, Constraint("json_object")),
    ({"response_format": json_schema(SCHEMA)}, of_schema()),
    ({"response_format": json_schema(SCHEMA, strict=True)}, of_schema()),
    ({"response_format": json_schema(SCHEMA, any_whitespace=False)}, of_schema(any_whitespace=False)),
    ({"response_format": {"type": "json_schema", "schema": SCHEMA}}, of_schema()),
    ({"response_format": {"type": "json_object", "schema": SCHEMA}}, of_schema()),
    ({"guided_grammar": 'root ::= "a"'}, Constraint("gbnf", 'root ::= "a"')),
    ({"guided_grammar": 'start: "a"'}, Constraint("lark", 'start: "a"')),
    ({"guided_regex": r"^\d+$"}, Constraint("regex", r"^\d+$")),
    ({"guided_choice": ["a", "ä"]}, Constraint("choice", '["a", "ä"]')),
    ({"structured_outputs": SCHEMA}, of_schema()),
    ({"structured_outputs": {"choice": ["a"]}}, Constraint("choice", '["a"]')),
    ({"structured_outputs": {"json": SCHEMA}}, of_schema()),
    ({"structured_outputs": {"regex": "a"}}, Constraint("regex", "a")),
    ({"structured_outputs": {"grammar": 'root ::= "a"'}}, Constraint("gbnf", 'root ::= "a"')),
    ({"guided_json": SCHEMA}, of_schema()),
    ({"guided_json": json.dumps(SCHEMA)}, of_schema()),
]


@pytest.mark.parametrize(("fields", "expected"), FIELDS)
@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
async def test_each_field(
    front: Front, path: str, fields: dict[str, Any], expected: Constraint | None
) -> None:
    assert await constraint_of(front, path, **fields) == expected
    prompt = bytes(i for i in front.engine.requests[-1].prompt_ids if i < 256)
    assert b"system" not in prompt  # enforced: nothing needs to be told


async def test_precedence(front: Front) -> None:
    order: list[tuple[dict[str, Any], str]] = [
        ({"guided_grammar": 'root ::= "a"'}, "gbnf"),
        ({"response_format": json_schema(SCHEMA)}, "json_schema"),
        ({"structured_outputs": {"type": "null"}}, "json_schema"),
        ({"guided_regex": "a"}, "regex"),
        ({"guided_choice": ["a"]}, "choice"),
    ]
    while order:
        fields = {name: value for item, _ in reversed(order) for name, value in item.items()}
        constraint = await constraint_of(front, **fields)
        assert constraint is not None
        assert constraint.kind == order.pop(0)[1]
    constraint = await constraint_of(
        front, response_format={"type": "json_object"}, structured_outputs=SCHEMA
    )
    assert constraint == Constraint("json_object")


@pytest.mark.parametrize(
    ("fields", "reason", "told"),
    [
        ({"response_format": json_schema(UNSUPPORTED)}, 'unsupported keyword "uniqueItems"', "uniqueItems"),
        ({"response_format": {"type": "json_schema"}}, "schema is missing", "valid JSON"),
        ({"response_format": {"type": "xml"}}, "unknown type", "valid JSON"),
        ({"response_format": "json"}, "unknown type", "valid JSON"),
        ({"structured_outputs": False}, "allows nothing", "false"),
        ({"structured_outputs": [1]}, "must be an object", "[1]"),
        ({"guided_json": "{"}, "not JSON", "{"),
        ({"guided_regex": "(?=a)"}, "look-around", "(?=a)"),
        ({"guided_regex": 5}, "must be of type str", "5"),
        ({"guided_choice": "yes"}, "JSON", "yes"),
        ({"guided_choice": []}, "non-empty array", "[]"),
        ({"guided_grammar": "root ::= nothing"}, "not defined", "root ::= nothing"),
        ({"guided_grammar": {"a": 1}}, "must be of type str", '{"a": 1}'),
    ],
)
async def test_what_cannot_be_enforced_degrades(
    front: Front, fields: dict[str, Any], reason: str, told: str
) -> None:
    for stream in (False, True):
        response = await front.post(CHAT, ask(stream=stream, **fields))
        assert response.status_code == 200
        warning = response.headers["warning"]
        assert warning.startswith("grammar not enforced: ")
        assert warning.endswith(" - falling back to prompt injection")
        assert reason in warning
        request = front.engine.requests[-1]
        assert request.constraint is None
        assert told.encode() in bytes(i for i in request.prompt_ids if i < 256)
    response = await front.post("/v1/completions", {"prompt": "x", **fields})
    assert reason in response.headers["warning"]
    assert bytes(front.engine.requests[-1].prompt_ids) == b"x"


async def test_what_is_told_never_makes_the_prompt_too_long() -> None:
    front = make_front()  # with a context of 4,096 tokens, each of one byte
    response = await front.post(CHAT, ask(guided_regex="x" * 50_000))
    assert response.status_code == 200
    assert "grammar not enforced" in response.headers["warning"]
    told = bytes(i for i in front.engine.requests[-1].prompt_ids if i < 256)
    assert b"regular expression" in told
    assert 1_500 < told.count(b"x") <= 2_048


async def test_a_strict_schema_is_enforced_or_refused(front: Front) -> None:
    before = len(front.engine.requests)
    for path, body in ((CHAT, ask()), ("/v1/completions", {"prompt": "x"})):
        for stream in (False, True):
            fields = {"response_format": json_schema(UNSUPPORTED, strict=True), "stream": stream}
            response = await front.post(path, {**body, **fields})
            assert response.status_code == 400
            message = response.json()["error"]["message"]
            assert message.startswith("response_format.json_schema.schema cannot be enforced: ")
            assert 'unsupported keyword "uniqueItems"' in message
    assert len(front.engine.requests) == before


async def test_switched_off() -> None:
    front = make_front()
    for strict in (False, True):
        response = await front.post(CHAT, ask(response_format=json_schema(SCHEMA, strict=strict)))
        assert response.headers["warning"] == (
            "grammar not enforced: grammar compilation disabled by STOKER_GRAMMAR=0"
            " - falling back to prompt injection"
        )


def test_the_responses_form_of_a_format() -> None:
    wish = format_wish("text.format", {"type": "json_schema", "name": "x", "schema": SCHEMA, "strict": True})
    assert wish is not None
    assert (wish.field, wish.constraint, wish.strict) == ("text.format.schema", of_schema(), True)


@pytest.mark.parametrize(("opener", "closer"), [("<think>", "</think>"), ("[THINK]", "[/THINK]")])
def test_thinking_comes_first(opener: str, closer: str) -> None:
    template = (
        "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}<|im_start|>assistant\n"
        "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% elif open %}<think>\n{% endif %}"
    )
    template = template.replace("<think>", opener).replace("</think>", closer)
    text = byte_text_model(template=template)
    constraint = Constraint("json_object")

    def after(**kwargs: Any) -> Constraint | None:
        prompt = text.render(HI, None, kwargs)
        return after_thinking(constraint, reading_for([template], prompt), prompt)

    assert after(enable_thinking=False) == constraint
    assert after(open=True) == Constraint("json_object", free_until=closer)
    assert after() == Constraint("json_object", free_until=closer, free_opener=opener)
    assert after_thinking(constraint, None, "") == constraint
