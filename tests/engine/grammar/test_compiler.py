"""Compiling: what is refused and why, bounds on time, depth and memory, the cache."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from tests.engine.grammar.texts import accepts, byte_vocabulary

from stoker.core import Constraint
from stoker.engine.grammar import GrammarCompiler
from stoker.engine.grammar import compiler as compiler_module
from stoker.errors import GrammarError


def reason(grammars: GrammarCompiler, kind: Any, source: Any) -> str:
    with pytest.raises(GrammarError) as caught:
        grammars.compile(Constraint(kind, source if isinstance(source, str) else json.dumps(source)))
    message = caught.value.message
    assert message.isascii()
    assert message.isprintable()
    return message


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"not": {"type": "string"}}, 'unsupported keyword "not"'),
        ({"type": "array", "uniqueItems": True}, 'unsupported keyword "uniqueItems"'),
        ({"type": "array", "contains": {"const": 1}}, 'unsupported keyword "contains"'),
        ({"properties": {"a": {"propertyNames": {"pattern": "x"}}}}, 'unsupported keyword "propertyNames"'),
        ({"if": {"type": "string"}, "then": {"minLength": 1}}, 'unsupported keyword "if", "then"'),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, "oneOf"),
        ({"type": "string", "format": "é"}, "Unknown format"),
        ({"type": "string", "pattern": "(?=a)"}, "look-around"),
        ({"$ref": "#/nope"}, "/nope"),
        ({"$ref": "http://127.0.0.1:9/x"}, "http://127.0.0.1:9/x"),
        ({"type": "wat"}, "wat"),
        ({"enum": []}, "Unsatisfiable"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "minimum (5)"),
        ({"type": "object", "required": ["z"], "additionalProperties": False}, "'z'"),
        (False, "allows nothing"),
        ("{", "not JSON"),
        ('"text"', "must be an object"),
        ({"const": 10**400}, "not JSON serializable"),
        ({"minimum": float("inf")}, "minimum"),
    ],
)
def test_a_schema_that_cannot_be_enforced(grammars: GrammarCompiler, schema: Any, said: str) -> None:
    assert said in reason(grammars, "json_schema", schema)


def test_choices_and_lark(grammars: GrammarCompiler) -> None:
    for source in ("[]", '["a", 1]', '"a"', "{}", "nonsense"):
        assert reason(grammars, "choice", source)
    for source in ("", "start: nothing", "garbage ~~", "start: " + "(" * 2000 + '"a"' + ")" * 2000):
        assert reason(grammars, "lark", source)
    for text in ("yes", "no", "", 'quote " and \\', "é🙂\n"):
        choices = json.dumps(["yes", "yesterday", "no", "", 'quote " and \\', "é🙂\n"])
        assert accepts(grammars, "choice", choices, text)
    assert not accepts(grammars, "choice", '["yes", "no"]', "ye")


def deep_schema(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def chain(length: int) -> dict[str, Any]:
    """Definitions that refer to each other in a row: on the usual stack, 1000 of them end the process."""
    links = {
        f"a{i}": {"type": "object", "properties": {"x": {"$ref": f"#/$defs/a{i + 1}"}}, "required": ["x"]}
        for i in range(length)
    }
    return {"$defs": {**links, f"a{length}": {"type": "string"}}, "$ref": "#/$defs/a0"}


def rule_chain(length: int, body: str) -> str:
    rules = "\n".join(f"{body[0]}{i}: {body.replace('#', str(i + 1))}" for i in range(length))
    return f'start: {body[0]}0\n{rules}\n{body[0]}{length}: "a"'


def intertwined(length: int) -> str:
    rules = "\n".join(f"r{i} ::= r{i + 1}? r{i + 1}* | root" for i in range(length))
    return f'root ::= r0\n{rules}\nr{length} ::= "a"* | "b"'


def scattered(seed: int) -> str:
    """Characters that no two classes share alike, so that every one is an interval of its own."""
    return "".join(chr(0x4E00 + (i * 37 + seed * seed) % 3000) for i in range(400))


MONSTERS = {
    "deep": ("json_schema", deep_schema(200), "recursion"),
    "long chain": ("json_schema", chain(7000), "7001 references"),
    "product": (
        "json_schema",
        {
            "allOf": [
                {"anyOf": [{"properties": {f"a{i}{j}": {"const": j}}} for j in range(4)]} for i in range(10)
            ]
        },
        "too large",
    ),
    "long text": ("json_schema", {"description": "x" * 2**20}, "the limit is 1048576"),
    "long pattern": ("json_schema", {"properties": {"a": {"pattern": "a?" * 20_000}}}, "40000 characters"),
    "rules": ("lark", rule_chain(3000, "r#"), "too many rules"),
    "terminals": ("lark", rule_chain(3000, 'T# "x"'), "too many rules"),
    "long GBNF": ("gbnf", "root ::= " + " | ".join(f'"{i:06}"' for i in range(90_000)), "the limit is 65536"),
    "classes of a thousand characters": (
        "gbnf",
        "root ::= (" + " ".join(f"[{scattered(i)}]*" for i in range(160)) + ")*",
        "the limit is",
    ),
    "intertwined rules": ("gbnf", intertwined(400), "too complex"),
    "copies": ("regex", "a{1000000}", "1000000 times"),
    "copies of copies": ("regex", "x((ab{1000})+c{1000}){1000}", "1000000 times"),
    "copies in a pattern": ("json_schema", {"type": "string", "pattern": "^(no{400000})$"}, "400000 times"),
    "copies in a terminal": ("lark", 'start: A\nA: "a"{1000000}', "too many expressions"),
    "copies behind the first token": ("lark", "start: /[xy]a{1000000}/", "too many"),
    "exploding alternatives": ("regex", "(a|aa|aaa){1000}b", "too many expressions"),
    "nested groups": ("regex", "(" * 5000 + "a" + ")" * 5000, "nest"),
    "nested stars": ("regex", "(" * 5000 + "a" + ")*" * 5000, "nest"),
    "huge enum": ("json_schema", {"enum": [f"v{i}" for i in range(90_000)]}, "too large"),
    "huge maxLength": ("json_schema", {"type": "string", "maxLength": 10**18}, "decimal literal"),
    "reference to itself": ("json_schema", {"$ref": "#"}, "no text can match it"),
    "circle of references": (
        "json_schema",
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        "no text can match it",
    ),
    "empty lines": ("lark", "\n" * 200_000, "Empty"),
}


@pytest.mark.parametrize("name", MONSTERS)
def test_monsters_are_refused_soon(grammars: GrammarCompiler, name: str) -> None:
    kind, source, said = MONSTERS[name]
    assert said in reason(grammars, kind, source)


@pytest.mark.parametrize(
    "constraint",
    [
        Constraint("json_schema", json.dumps(chain(1000))),
        Constraint("json_schema", json.dumps(deep_schema(30))),
        Constraint("json_schema", json.dumps({"enum": [f"value {i}" for i in range(10_000)]})),
        Constraint("json_schema", json.dumps({"type": "array", "minItems": 10**9})),
        Constraint("json_schema", json.dumps({"type": "string", "minLength": 10**9})),
        Constraint("json_schema", json.dumps({"type": "array", "maxItems": 10**6})),
        Constraint("json_schema", json.dumps({"type": "string", "minLength": 10**6, "maxLength": 10**6})),
        Constraint("json_schema", json.dumps({"type": "object", "minProperties": 10**6})),
        Constraint("regex", "(a*)*(a|a)*b" * 100),
        Constraint("regex", "(a|aa)*b"),
        Constraint("regex", "[ab]{1000000}"),
        Constraint("regex", "a{50000}"),
        Constraint("gbnf", "root ::= (" + " ".join(f"[{scattered(i)}]*" for i in range(8)) + ")*"),
        Constraint("gbnf", 'root ::= root root | root* (root | "a")* | ""'),
        Constraint("regex", "(.*a){40}.{200}"),
        Constraint("lark", rule_chain(1000, "r#")),
        Constraint("lark", rule_chain(1000, 'T# "x"')),
    ],
    ids=lambda constraint: constraint.source[:30],
)
def test_large_but_possible(grammars: GrammarCompiler, constraint: Constraint) -> None:
    matcher = grammars.matcher(constraint, [])
    assert matcher.mask().any()


def test_the_schema_cannot_change_the_servers_options(grammars: GrammarCompiler) -> None:
    schema = {"x-guidance": {"whitespace_flexible": False, "lenient": True}, "uniqueItems": True}
    assert "uniqueItems" in reason(grammars, "json_schema", schema)


@pytest.mark.parametrize("kind", ["json_object", "json_schema"])
def test_white_space_is_limited(grammars: GrammarCompiler, kind: Any) -> None:
    source = "" if kind == "json_object" else json.dumps({"type": "object"})
    for text in (
        '{"a": 1, "b": [1, {}]}',
        '{"a":1}',
        '{\n  "a": 1,\n  "b": {\n    "c": 2\n  }\n}',
        "{ }",
        '{\n\t"a": 1\n}',
    ):
        assert accepts(grammars, kind, source, text), text
    for text in ("{  }", "{\n\n}", "{ \n}", "{\n" + " " * 41 + "}", " {}", "{} ", "{}\n", '{"a":\t1}'):
        assert not accepts(grammars, kind, source, text), text


def test_compact_json(grammars: GrammarCompiler) -> None:
    matcher = grammars.matcher(Constraint("json_object", any_whitespace=False), [])
    for byte in b'{"a":':
        matcher.accept(byte)
    (word,) = matcher.mask()[1:2]
    assert not int(word) & 1  # a space, 32


def test_each_source_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def count(constraint: Constraint) -> str:
        calls.append(constraint.source)
        return original(constraint)

    original = compiler_module.grammar_source
    monkeypatch.setattr(compiler_module, "grammar_source", count)
    grammars = GrammarCompiler(byte_vocabulary)
    threads = [threading.Thread(target=grammars.compile, args=[Constraint("regex", "a+b")]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    grammars.compile(Constraint("regex", "a+b", free_until="</think>"))
    for _ in range(3):
        with pytest.raises(GrammarError):
            grammars.compile(Constraint("regex", "("))
    assert sorted(calls) == ["(", "a+b"]
    for number in range(compiler_module.MAX_GRAMMARS):
        grammars.compile(Constraint("regex", f"x{number}"))
    grammars.compile(Constraint("regex", "a+b"))  # forgotten meanwhile
    assert calls.count("a+b") == 2


def test_a_compilation_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    original = compiler_module.grammar_source

    def wait(constraint: Constraint) -> str:
        gate.wait(30)
        return original(constraint)

    monkeypatch.setattr(compiler_module, "grammar_source", wait)
    grammars = GrammarCompiler(byte_vocabulary, time_limit_s=0.05)
    with pytest.raises(GrammarError, match=r"took longer than 0\.05 s"):
        grammars.compile(Constraint("regex", "a"))
    gate.set()
    deadline = time.monotonic() + 30
    while True:  # finished in the background, it serves the next request
        try:
            grammars.compile(Constraint("regex", "a"))
            break
        except GrammarError:
            assert time.monotonic() < deadline


def test_a_compiler_that_breaks_down_refuses_the_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Panic(BaseException):
        """Like the bindings' own, no Exception."""

    def panic(constraint: Constraint) -> str:
        raise Panic("index out of bounds")

    grammars = GrammarCompiler(byte_vocabulary)
    with monkeypatch.context() as patched:
        patched.setattr(compiler_module, "grammar_source", panic)
        assert "compiler failed" in reason(grammars, "regex", "abc")
    grammars.compile(Constraint("regex", "abcd"))


def test_grammars_that_never_end_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    original = compiler_module.grammar_source

    def endless(constraint: Constraint) -> str:
        assert gate.wait(60)
        return original(constraint)

    monkeypatch.setattr(compiler_module, "grammar_source", endless)
    grammars = GrammarCompiler(byte_vocabulary, time_limit_s=0.05)
    for letter in "ab":
        with pytest.raises(GrammarError, match="took longer"):
            grammars.compile(Constraint("regex", letter))
    deadline = time.monotonic() + 60
    for number in range(1_000):  # the watch counts them a moment later
        with pytest.raises(GrammarError) as refusal:
            grammars.compile(Constraint("regex", f"c{number}"))
        if "busy" in str(refusal.value):
            break
    threads = threading.active_count()
    for number in range(20):
        with pytest.raises(GrammarError, match="busy"):
            grammars.compile(Constraint("regex", f"d{number}"))
    assert threading.active_count() <= threads
    gate.set()
    while True:
        try:
            grammars.compile(Constraint("regex", "e"))
            break
        except GrammarError:
            assert time.monotonic() < deadline
