"""Replies keep their ids in the next prompt, and only there."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stoker.chat.model import TextModel
from stoker.chat.remembered import RememberedTexts, encode_with
from stoker.chat.tokenizer import Tokenizer

from . import families, toys


def tokenizer(**config: Any) -> Tokenizer:
    return toys.chatml_tokenizer(("hello", "hell", "wor"), **config)


def letters(tokens: Tokenizer, text: str) -> list[int]:
    """The spelling a tokenizer would not choose: one token for each byte."""
    by_bytes = {tokens.token_bytes(i): i for i in range(tokens.vocab_size)}
    return [by_bytes[bytes([byte])] for byte in text.encode()]


@pytest.fixture
def text() -> TextModel:
    return TextModel.from_parts(
        "tiny",
        toys.byte_level(("hello", "wor")),
        {"chat_template": families.CHATML, "eos_token": "<|im_end|>"},
        {},
        {"max_position_embeddings": 4096},
        created=1,
    )


USER = {"role": "user", "content": "say hello"}
NEXT = {"role": "user", "content": "again hello"}


def test_the_next_prompt_begins_with_the_ids_of_the_last_turn(text: TextModel) -> None:
    prompt = text.prompt_from_messages([USER])
    spelled = letters(text.tokenizer, "hello 你!")
    end = text.tokenizer.token_id("<|im_end|>")
    assert end is not None
    text.remember_reply(prompt, [*spelled, end])
    messages = [USER, {"role": "assistant", "content": "hello 你!"}, NEXT]
    following = text.prompt_from_messages(messages)
    assert following[: len(prompt) + len(spelled)] == prompt + spelled
    assert following[len(prompt) + len(spelled)] == end
    plain = text.tokenizer.encode(text.render(messages), add_special=False)
    assert following != plain
    assert text.tokenizer.decode(following) == text.tokenizer.decode(plain)
    # And the turn after that, with both replies.
    text.remember_reply(following, letters(text.tokenizer, "wor"))
    last = text.prompt_from_messages([*messages, {"role": "assistant", "content": "wor"}, USER])
    assert last[: len(following)] == following


@pytest.mark.parametrize("content", ["hello 你", "Hello 你!", "", "hell o 你!"])
def test_an_edited_reply_is_encoded_anew(text: TextModel, content: str) -> None:
    prompt = text.prompt_from_messages([USER])
    text.remember_reply(prompt, letters(text.tokenizer, "hello 你!"))
    messages = [USER, {"role": "assistant", "content": content}, NEXT]
    encoded = text.tokenizer.encode(text.render(messages), add_special=False)
    assert text.prompt_from_messages(messages) == encoded


def test_half_a_character_at_the_end_is_no_text_to_go_on_from(text: TextModel) -> None:
    prompt = text.prompt_from_messages([USER])
    cut = letters(text.tokenizer, "你")[:2]
    text.remember_reply(prompt, cut)
    messages = [USER, {"role": "assistant", "content": "你"}, NEXT]
    assert text.prompt_from_messages(messages) == text.tokenizer.encode(
        text.render(messages), add_special=False
    )


def test_an_empty_reply_is_not_remembered(text: TextModel) -> None:
    text.remember_reply([1, 2], sorted(text.eos_ids)[:1])
    text.remember_reply([1, 2], [])
    assert len(text.remembered) == 0


@pytest.mark.parametrize("prepend", [True, False])
def test_sentencepiece_texts_stay_what_they_are(prepend: bool) -> None:
    """Where pieces cannot be joined without a space that nobody wrote, the prompt is encoded whole."""
    tokens = Tokenizer(toys.sentencepiece(prepend=prepend), {"bos_token": "<s>"})
    remembered = RememberedTexts()
    ids = tokens.encode("Hello world", add_special=False)
    spelled = [i for piece in "Hello world" for i in tokens.encode(piece, add_special=False)]
    remembered.remember(tokens, ids)
    found = encode_with(tokens, remembered, "Hello worldabc Hello")
    assert tokens.decode(found) == "Hello worldabc Hello"
    if not prepend:
        remembered.remember(tokens, spelled)
        assert encode_with(tokens, remembered, "Hello world abc")[: len(spelled)] == spelled


@pytest.mark.parametrize("seed", range(5))
def test_the_longest_fitting_text_is_found(seed: int) -> None:
    chooser = random.Random(seed)
    tokens = tokenizer()
    remembered = RememberedTexts()
    texts: set[str] = set()
    for _ in range(300):
        word = "".join(chooser.choice("ab") for _ in range(chooser.randrange(1, 9)))
        found = remembered.longest(word.encode())
        best = max((t for t in texts if word.startswith(t) and t != word), key=len, default=None)
        assert (found and found[0].decode()) == best
        if found:
            assert tokens.raw_bytes(found[1]) == found[0]
        remembered.remember(tokens, letters(tokens, word))
        texts.add(word)
    assert len(remembered) == len(texts)


def test_the_store_is_bounded_and_the_stalest_leave() -> None:
    tokens = tokenizer()
    remembered = RememberedTexts(max_bytes=50)  # 5 bytes for each letter of text
    remembered.remember(tokens, letters(tokens, "abcd"))
    remembered.remember(tokens, letters(tokens, "bcde"))
    assert remembered.longest(b"abcdx") is not None
    remembered.remember(tokens, letters(tokens, "cde"))
    assert remembered.longest(b"bcdex") is None
    assert remembered.longest(b"abcdx") is not None
    assert remembered.longest(b"cdex") is not None
    remembered.remember(tokens, letters(tokens, "x" * 100))
    assert len(remembered) == 0
