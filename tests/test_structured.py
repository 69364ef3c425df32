"""Structured output on real weights, through the openai SDK: at temperature 1.5 every complete answer
conforms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import jsonschema
import openai
import pytest
from pydantic import BaseModel, Field
from tests.api.fronts import serving
from tests.engine.grammar.corners import CORNERS, ENFORCED
from tests.engine.grammar.schemas import SCHEMAS
from tests.engine.grammar.test_gbnf import JSON
from tests.engine.grammar.texts import byte_vocabulary, follow

from stoker.app import build_app, load_served_model
from stoker.config import Settings
from stoker.core import Constraint
from stoker.engine.grammar import GrammarCompiler

pytestmark = pytest.mark.real_weights
ASK: Any = [{"role": "user", "content": "Invent an example."}]


@pytest.fixture(scope="module")
def client(smollm2_path: Path) -> Iterator[openai.OpenAI]:
    served = load_served_model(Settings(model=str(smollm2_path)))
    app, _ = build_app(served)
    with serving(app) as port:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="unused", max_retries=0)
        yield client
        client.close()
    served.close()


def answers(client: openai.OpenAI, *, n: int = 1, **fields: Any) -> list[tuple[str, str]]:
    """(text, finish reason) at a temperature where the model raves."""
    options = {"temperature": 1.5, "seed": 5, "max_tokens": 150, "extra_body": fields.pop("extra", {})}
    raw = client.chat.completions.with_raw_response.create(
        model="x", messages=ASK, n=n, **{**options, **fields}
    )
    assert "warning" not in raw.headers, raw.headers["warning"]
    return [(choice.message.content or "", choice.finish_reason) for choice in raw.parse().choices]


def schema_format(schema: Any, **more: Any) -> Any:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, **more}}


def test_every_answer_validates_or_is_cut_while_valid(client: openai.OpenAI) -> None:
    grammars = GrammarCompiler(byte_vocabulary)

    def check(name: str) -> str:
        schema = SCHEMAS[name]
        validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
        replies = answers(client, response_format=schema_format(schema, strict=True), max_tokens=250)
        finished = [text for text, reason in replies if reason == "stop"]
        for text in finished:
            validator.validate(json.loads(text))
        constraint = Constraint("json_schema", json.dumps(schema, ensure_ascii=False))
        for text, reason in replies:
            if reason != "stop":
                assert reason == "length"
                whole = text.removesuffix("\ufffd")  # cut inside a character
                assert follow(grammars.matcher(constraint, []), whole.encode()), (name, text)
        return "" if finished else name

    with ThreadPoolExecutor(4) as together:
        unfinished = {name for name in together.map(check, SCHEMAS) if name}
    # Some have keys without a limit, in which a raving model loses itself.
    assert len(unfinished) <= 3, unfinished


@pytest.fixture(scope="module")
def corner_replies(client: openai.OpenAI) -> dict[str, tuple[str, str | None, str | None]]:
    """(text, finish reason, Warning header) by the schema's name; asked side by side, to be quick."""

    def ask(name: str) -> tuple[str, str | None, str | None]:
        raw = client.chat.completions.with_raw_response.create(
            model="x",
            messages=ASK,
            temperature=1.5,
            seed=7,
            max_tokens=400 if name in ENFORCED else 24,
            response_format=schema_format(CORNERS[name]),
        )
        choice = raw.parse().choices[0]
        return choice.message.content or "", choice.finish_reason, raw.headers.get("warning")

    with ThreadPoolExecutor(8) as together:
        return dict(zip(CORNERS, together.map(ask, CORNERS), strict=True))


@pytest.mark.parametrize("name", CORNERS)
def test_corners_are_kept_or_refused(corner_replies: Any, name: str) -> None:
    text, reason, warning = corner_replies[name]
    if warning is not None:
        assert name not in ENFORCED, warning
        assert re.fullmatch("grammar not enforced: .+ - falling back to prompt injection", warning, re.DOTALL)
        return
    assert reason == "stop"
    schema: Any = CORNERS[name]
    make = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    # The format checkers that come with jsonschema alone; its "time" is not RFC 3339's.
    formats = jsonschema.FormatChecker(["date", "uuid", "email", "ipv4", "ipv6"])
    make(schema, format_checker=formats).validate(json.loads(text))


class Animal(BaseModel):
    name: str = Field(max_length=20)
    legs: int = Field(ge=0, le=8)
    sound: Literal["woof", "meow"] | None


class Zoo(BaseModel):
    animals: list[Animal] = Field(min_length=1, max_length=2)


def test_parse_with_a_pydantic_model(client: openai.OpenAI) -> None:
    completion = client.chat.completions.parse(
        model="x", messages=ASK, response_format=Zoo, temperature=1.5, seed=2, max_tokens=300
    )
    zoo = completion.choices[0].message.parsed
    assert isinstance(zoo, Zoo)
    assert 1 <= len(zoo.animals) <= 2


def test_streamed(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="x", messages=ASK, response_format=Zoo, temperature=1.5, seed=3, max_tokens=300
    ) as stream:
        final = stream.get_final_completion()
    assert isinstance(final.choices[0].message.parsed, Zoo)


def test_the_other_fields(client: openai.OpenAI) -> None:
    expression = r"[A-Z][a-z]{2,8} \d{4}-\d{2}(, (yes|no)){1,3}\.?"
    for text, reason in answers(client, extra={"guided_regex": expression}, n=4):
        assert reason == "stop"
        assert re.fullmatch(expression, text)
    choices = ["yes", "no", 'perhaps "so"', "né🙂", "yesterday"]
    for text, reason in answers(client, extra={"guided_choice": choices}, n=4):
        assert (text in choices, reason) == (True, "stop")
    for text, reason in answers(client, extra={"guided_grammar": 'root ::= "<" [a-d]{3} root? ">"'}, n=2):
        assert reason == "length" or re.fullmatch(r"(<[a-d]{3})+>+", text)
    for text, reason in answers(client, extra={"guided_grammar": JSON}, n=2, max_tokens=60):
        assert reason == "length" or isinstance(json.loads(text), dict)
    for text, reason in answers(client, extra={"guided_grammar": 'start: "n=" /[0-9]{1,3}/'}, n=2):
        assert reason == "stop"
        assert re.fullmatch("n=[0-9]{1,3}", text)


def test_json_object_does_not_drown_in_space(client: openai.OpenAI) -> None:
    for text, reason in answers(client, response_format={"type": "json_object"}, n=4, max_tokens=80):
        assert text.startswith("{")
        assert not re.search(r"\n\s*\n", re.sub(r'"(\\.|[^"\\])*"?', "s", text))
        if reason == "stop":
            assert isinstance(json.loads(text), dict)


def test_a_cut_answer_is_a_beginning(client: openai.OpenAI) -> None:
    ((text, reason),) = answers(client, response_format=schema_format(SCHEMAS["deep"]), max_tokens=6)
    assert reason == "length"
    assert text.startswith("{")
    with pytest.raises(ValueError):  # noqa: PT011 (json's own)
        json.loads(text)


def test_logprobs_and_text_completions(client: openai.OpenAI) -> None:
    choice = client.completions.create(
        model="x",
        prompt="Is it?",
        temperature=1.5,
        seed=1,
        logprobs=2,
        extra_body={"guided_choice": ["yes", "no"]},
    ).choices[0]
    assert choice.text in ("yes", "no")
    assert choice.logprobs is not None
    assert all(value <= 0 for value in choice.logprobs.token_logprobs or [])
