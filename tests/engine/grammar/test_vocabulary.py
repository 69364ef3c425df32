"""Tokens that spell a text exactly, whatever a tokenizer adds or loses."""

from __future__ import annotations

from stoker.engine.grammar import Vocabulary

TOKENS = [b" a", b"a", b"b", b"ab", b" ", b"\x02", b"<s>"]


def vocabulary(encode: object) -> Vocabulary:
    return Vocabulary(TOKENS, frozenset({6}), encode)  # type: ignore[arg-type]


def test_the_tokenizers_own_tokens_where_they_are_exact() -> None:
    assert vocabulary(lambda text: [1, 2]).tokens_of("ab") == [1, 2]


def test_a_leading_space_is_not_part_of_the_text() -> None:
    def sentencepiece(text: str) -> list[int]:
        if text.startswith("\x02"):
            return [4, 5, *(1 if char == "a" else 2 for char in text[1:])]
        return [0, *(2 for _ in text[1:])]

    assert vocabulary(sentencepiece).tokens_of("ab") == [1, 2]


def test_lost_characters_are_found_by_their_bytes() -> None:
    lossy = vocabulary(lambda text: [1])
    assert lossy.tokens_of("abb") == [3, 2]
    assert lossy.tokens_of("abé") == [3]
    assert lossy.tokens_of("é") == []
    assert lossy.tokens_of("<s>") == []
