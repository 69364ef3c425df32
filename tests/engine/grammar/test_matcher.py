"""One row's matcher: when a reply may end, what is free before the grammar holds, what is never allowed."""

from __future__ import annotations

from tests.engine.grammar.texts import END, RUN_ON, THINK, THINK_END, allowed, follow

from stoker.core import Constraint
from stoker.engine.grammar import GrammarCompiler

A, B, C = b"abc"
AB = 256


def test_the_end_is_allowed_where_the_text_is_complete(grammars: GrammarCompiler) -> None:
    matcher = grammars.matcher(Constraint("regex", "ab+c?"), [END])
    assert allowed(matcher) == {A}
    matcher.accept(A)
    assert allowed(matcher) == {B}
    matcher.accept(B)
    assert allowed(matcher) == {B, C, END}
    assert not matcher.is_complete
    matcher.accept(C)
    assert matcher.is_complete


def test_without_end_tokens_only_a_finished_grammar_ends(grammars: GrammarCompiler) -> None:
    matcher = grammars.matcher(Constraint("regex", "a?"), [])
    assert allowed(matcher) == {A}
    matcher.accept(A)
    assert matcher.is_complete


def test_rows_of_one_grammar_are_independent(grammars: GrammarCompiler) -> None:
    constraint = Constraint("choice", '["ab", "ba"]')
    first, second = grammars.matcher(constraint, [END]), grammars.matcher(constraint, [END])
    first.accept(A)
    assert allowed(second) == {A, B, AB}
    second.accept(B)
    assert (allowed(first), allowed(second)) == ({B}, {A})


def test_special_tokens_and_broken_characters_are_never_allowed(grammars: GrammarCompiler) -> None:
    matcher = grammars.matcher(Constraint("json_object"), [])
    assert follow(matcher, b'{"')
    inside = allowed(matcher)
    assert END not in inside
    assert not inside & {*range(0x20), *range(0x80, 0xC2), *range(0xF5, 0x100)}
    matcher.accept(0xC3)
    assert allowed(matcher) == set(range(0x80, 0xC0))


def test_a_grammar_may_name_a_special_token(grammars: GrammarCompiler) -> None:
    matcher = grammars.matcher(Constraint("lark", 'start: <end> "a"'), [])
    assert allowed(matcher) == {END}
    matcher.accept(END)
    assert allowed(matcher) == {A}


def test_free_until_a_tag(grammars: GrammarCompiler) -> None:
    matcher = grammars.matcher(Constraint("regex", "ab", free_until="</think>"), [END])
    assert {A, B, C, THINK, THINK_END} <= allowed(matcher)
    assert END not in allowed(matcher)  # the promised text is still to come
    for byte in b"think {}</thin":
        matcher.accept(byte)
    assert RUN_ON in allowed(matcher)
    assert not matcher.is_complete
    matcher.accept(ord("k"))
    assert RUN_ON not in allowed(matcher)  # would go on behind the tag unchecked
    matcher.accept(ord(">"))
    assert allowed(matcher) == {A}
    assert follow(matcher, [A, B])
    assert matcher.is_complete


def test_free_until_a_tag_that_is_one_token(grammars: GrammarCompiler) -> None:
    matcher = grammars.matcher(Constraint("regex", "ab", free_until="</think>"), [END])
    assert follow(matcher, [C, THINK_END, A, B])
    assert matcher.is_complete


def test_free_only_behind_the_opening_tag(grammars: GrammarCompiler) -> None:
    constraint = Constraint("regex", "ab", free_until="</think>", free_opener="<think>")
    matcher = grammars.matcher(constraint, [END])
    assert allowed(matcher) == {A, THINK}
    assert follow(matcher, [THINK, C, C, THINK_END, A, B])
    matcher = grammars.matcher(constraint, [END])
    assert follow(matcher, [A])
    assert allowed(matcher) == {B}


def test_forced_tokens(grammars: GrammarCompiler) -> None:
    matcher = grammars.matcher(Constraint("regex", "abc(x|y)", free_until="</think>"), [])
    assert matcher.forced_tokens() == []
    matcher.accept(THINK_END)
    assert matcher.forced_tokens() == [A, B, C]


def test_a_grammar_given_up_says_so(grammars: GrammarCompiler) -> None:
    matcher = grammars.matcher(Constraint("regex", "ab"), [])
    matcher.accept(C)  # nobody should: a token that was masked out
    assert matcher.failure
    assert not matcher.is_complete
