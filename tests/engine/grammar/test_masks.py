"""Masks made together, ahead or not at all say the same: `allows` is a bit of the mask, whoever made it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.engine.grammar.texts import END, allowed, byte_vocabulary

from stoker.core import Constraint
from stoker.engine.grammar import GrammarCompiler, MaskMaker, RowMatcher

CONSTRAINTS = [
    Constraint("json_object"),
    Constraint(
        "json_schema",
        '{"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}, "age":'
        ' {"type": "integer", "minimum": 3, "maximum": 150}, "on": {"enum": [true, null, "x y"]}},'
        ' "required": ["name", "age", "on"]}',
    ),
    Constraint("regex", r"([a-z]{1,12}[ ,.]){2,9}[^\n]*"),
    Constraint("gbnf", 'root ::= "(" [a-z ]{2,20} root ")" | "[" [a-z ]{2,20} "]" | ""'),
    Constraint("lark", "start: a <end> b\na[lazy]: /[a-z ]+x/\nb[max_tokens=5]: /.*/"),
    Constraint("choice", '["ab", "abc", "true", "\\u00e9"]'),
    Constraint("regex", "ab+", free_until="</think>", free_opener="<think>"),
]
EVERY_TOKEN = range(len(byte_vocabulary().tokens))


def walk(seed: int, matcher: RowMatcher) -> list[int]:
    """The tokens of one random text that goes on as long as it may."""
    rng, text = random.Random(seed), []
    while not matcher.is_complete and len(text) < 40:
        assert matcher.failure is None
        ends = {END} if matcher.matcher.is_accepting() else set()
        choices = sorted(allowed(matcher) - ends)
        if not choices:
            break
        text.append(rng.choice(choices))
        matcher.accept(text[-1])
    return text


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda c: f"{c.kind} {c.source[:12]}")
@pytest.mark.parametrize("seed", range(3))
def test_a_token_asked_for_alone_is_a_bit_of_the_mask(
    grammars: GrammarCompiler, constraint: Constraint, seed: int
) -> None:
    text = walk(seed, grammars.matcher(constraint, [END]))
    assert text
    matcher = grammars.matcher(constraint, [END])
    for token_id in text:
        matcher.accept(token_id)
        if matcher.is_complete:
            break
        alone = {i for i in EVERY_TOKEN if matcher.allows(i)}
        assert alone == allowed(matcher)  # the mask is made only now
        assert {i for i in EVERY_TOKEN if matcher.allows(i)} == alone


def test_masks_made_together_or_ahead_are_those_made_alone(grammars: GrammarCompiler) -> None:
    texts = [walk(seed, grammars.matcher(c, [END])) for seed, c in enumerate(CONSTRAINTS)]
    alone, together, ahead = ([grammars.matcher(c, [END]) for c in CONSTRAINTS] for _ in range(3))
    maker = MaskMaker()
    for at in range(min(map(len, texts)) - 1):
        for rows in (alone, together, ahead):
            for row, text in zip(rows, texts, strict=True):
                row.mask()
                row.accept(text[at])
        maker.finish(together)
        assert not any(row.lacks_mask for row in together)
        maker.begin(ahead)
        assert not any(row.lacks_mask for row in ahead)
        expected = [row.mask() for row in alone]
        for rows in (together, ahead):
            assert all(np.array_equal(row.mask(), mask) for row, mask in zip(rows, expected, strict=True))


def test_only_rows_that_needed_a_mask_get_one_ahead(grammars: GrammarCompiler) -> None:
    asked, unasked = (grammars.matcher(Constraint("regex", "a*b*"), [END]) for _ in range(2))
    asked.mask()
    assert unasked.allows(ord("a"))
    for row in (asked, unasked):
        row.accept(ord("a"))
    MaskMaker().begin([asked, unasked])
    assert (asked.lacks_mask, unasked.lacks_mask) == (False, True)


def test_a_row_that_failed_harms_no_other(grammars: GrammarCompiler) -> None:
    broken, sound = (grammars.matcher(Constraint("regex", "ab+"), [END]) for _ in range(2))
    broken.accept(ord("z"))
    sound.accept(ord("a"))
    assert broken.failure
    MaskMaker().finish([broken, sound])
    assert allowed(sound) == {ord("b")}
    assert sound.failure is None
