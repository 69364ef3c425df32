"""Regular expressions must match whole texts exactly as Python's `re.fullmatch` does."""

from __future__ import annotations

import re

import pytest
from tests.engine.grammar.texts import accepts

from stoker.core import Constraint
from stoker.engine.grammar import GrammarCompiler
from stoker.errors import GrammarError

TEXTS = [
    "",
    "a",
    "b",
    "ab",
    "ba",
    "aab",
    "abab",
    "12",
    "a1",
    "a-b",
    "A",
    "é",
    "a\n",
    "(a)",
    "a]b",
    "a$",
    "^a",
    "2024-01-31",
]
EXPRESSIONS = [
    "", "a*", "a+?b", "^ab$", "^a|b$", "(^a|^b)$", "^(a|ab)(b|)$", r"\Aa\Z", r"\d+", r"\d{4}-\d{2}-\d{2}",
    r"(?P<first>a)(?:b)?", r"[]a]+b?", r"[^]]*", r"a[\]$^]b|a\$", r"\^a", r"\(a\)", ".", r"(?s:.)*", r"(?i)A",
    r"[[a-b]+", "[a&&b]+", "a{2}b", r"\w+", r"a\n", "é", r"(a$|b)", "((a)|(b$))", r"\u00e9",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Possible")
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_in_python(grammars: GrammarCompiler, expression: str) -> None:
    for text in TEXTS:
        expected = re.fullmatch(expression, text) is not None
        # `$` also matches before a last newline there; a whole text has nothing behind it.
        if text.endswith("\n") and "$" in expression:
            continue
        assert accepts(grammars, "regex", expression, text) == expected, text


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("a^b", "^ inside"),
        ("(a$)b", "$ inside"),
        ("a$*b", "$ inside"),
        ("(?=a)a", "look-around"),
        (r"a\b", "lookarounds"),
        (r"(a)\1", "backreferences"),
        ("(", "unclosed"),
        ("[a", "unclosed"),
        ("*", "repetition"),
        ("a" * 30_000, "30000 characters"),
    ],
)
def test_what_is_wrong_is_said(grammars: GrammarCompiler, expression: str, reason: str) -> None:
    with pytest.raises(GrammarError) as caught:
        grammars.compile(Constraint("regex", expression))
    assert reason in caught.value.message
    assert "\n" not in caught.value.message
