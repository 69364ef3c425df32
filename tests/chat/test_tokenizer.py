from __future__ import annotations

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models
from transformers.convert_slow_tokenizer import bytes_to_unicode

from stoker.chat.pieces import PieceDecoder, byte_alphabet
from stoker.chat.tokenizer import Tokenizer

from . import toys

KINDS = {
    "byte_level": lambda: Tokenizer(toys.byte_level(words=("你好", " Hello", "🌍"))),
    "llama2": lambda: Tokenizer(toys.sentencepiece(prepend=True)),
    "gemma": lambda: Tokenizer(toys.sentencepiece(prepend=False)),
}


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return KINDS[request.param]()


def joined(tokenizer: Tokenizer, ids: list[int]) -> str:
    return b"".join(map(tokenizer.token_bytes, ids)).decode()


def test_byte_alphabet_is_gpt2s() -> None:
    assert {char: byte for byte, char in bytes_to_unicode().items()} == byte_alphabet()


@pytest.mark.parametrize(
    "text",
    [toys.SCRIPT, "Hello world", " two  spaces ", "\n\ttabs\n\n", "a\u0301 e\u200d", "née ñ ß", "😀😀", ""],
)
def test_token_bytes_join_to_the_text(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, add_special=False)
    prefix = " " if tokenizer.encode("a", add_special=False)[0] == tokenizer.token_id("▁") and text else ""
    assert joined(tokenizer, ids) == prefix + text
    assert tokenizer.decode(ids) == text


BACKENDS = [toys.byte_level(), toys.sentencepiece(True), toys.sentencepiece(False)]
PAIRS = [(backend, Tokenizer(backend)) for backend in BACKENDS]


@settings(deadline=None)  # other work may share the processor
@given(text=st.text(alphabet=st.characters(exclude_characters="▁", exclude_categories=("Cs",)), max_size=40))
def test_decode_is_the_backends(text: str) -> None:
    for backend, tokenizer in PAIRS:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == backend.decode(ids, skip_special_tokens=True) == text


def test_every_single_byte_has_a_token() -> None:
    tokenizer = Tokenizer(toys.byte_level())
    assert {tokenizer.token_bytes(i) for i in range(3, 259)} == {bytes([b]) for b in range(256)}
    tokenizer = Tokenizer(toys.sentencepiece())
    assert [tokenizer.token_bytes(3 + b) for b in range(256)] == [bytes([b]) for b in range(256)]


def test_byte_pieces_without_byte_fallback_are_text() -> None:
    assert PieceDecoder().ordinary("<0xE4>") == b"<0xE4>"


def test_a_word_keeps_its_space_in_the_middle_of_a_text() -> None:
    tokenizer = Tokenizer(toys.sentencepiece())
    word = tokenizer.token_id("▁world")
    assert word is not None
    assert tokenizer.token_bytes(word) == b" world"
    assert tokenizer.decode([word]) == "world"  # as a whole text, the space was the tokenizer's
    assert tokenizer.decode([word, word]) == "world world"


def test_metaspace_decoder() -> None:
    backend = toys.metaspace()
    tokenizer = Tokenizer(backend)
    for text in ("Hello world", "你好 🌍", "ď"):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == backend.decode(ids) == text
        assert joined(tokenizer, ids) == " " + text


@pytest.mark.parametrize(
    ("decoder", "tokens"),
    [
        (decoders.WordPiece(prefix="##", cleanup=False), ["un", "##aff", "##able", "word"]),
        (decoders.BPEDecoder(suffix="</w>"), ["un", "able</w>", "word"]),
    ],
)
def test_older_decoders(decoder: object, tokens: list[str]) -> None:
    backend = tokenizers.Tokenizer(
        models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token="un")
    )
    backend.decoder = decoder
    assert Tokenizer(backend).decode(range(len(tokens))) == backend.decode(list(range(len(tokens))))


def test_special_tokens_are_hidden_and_named() -> None:
    tokenizer = toys.chatml_tokenizer()
    ids = tokenizer.encode("<|im_start|>hi<|im_end|>", add_special=False)
    assert ids[0] == 1
    assert ids[-1] == 2
    assert tokenizer.decode(ids) == "hi"
    assert tokenizer.token_bytes(1) == b"<|im_start|>"
    assert tokenizer.token_text(2) == "<|im_end|>"
    assert tokenizer.eos_id == 2
    assert tokenizer.special_ids == {0, 1, 2}


def test_added_tokens_that_are_not_special_are_text() -> None:
    backend = toys.byte_level()
    backend.add_tokens([AddedToken("<tool_call>"), AddedToken("é"), AddedToken("你好 x"), AddedToken("    ")])
    tokenizer = Tokenizer(backend)
    for text in ("a<tool_call>b", "né", "你好 x!", "    indented"):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == joined(tokenizer, ids) == text
    assert len(tokenizer.encode("<tool_call>")) == 1


def test_vocabulary_entries_listed_as_added_keep_their_spelling() -> None:
    backend = toys.sentencepiece(prepend=False, words=("▁▁",))
    backend.add_tokens([AddedToken("▁▁", normalized=False), AddedToken("\n\n", normalized=False)])
    tokenizer = Tokenizer(backend)
    ids = tokenizer.encode("a  b\n\nc", add_special=False)
    assert tokenizer.decode(ids) == "a  b\n\nc"
    byte_level = toys.byte_level(words=(" hello",))
    byte_level.add_tokens([AddedToken("\u0120hello")])
    tokenizer = Tokenizer(byte_level)
    token = tokenizer.token_id("\u0120hello")
    assert token is not None
    assert tokenizer.token_bytes(token) == b" hello"


def test_config_completes_the_backend() -> None:
    """Tokens that only tokenizer_config.json lists, and a special flag that it alone sets."""
    backend = toys.byte_level()
    end = backend.get_vocab_size()
    backend.add_tokens([AddedToken("<|turn|>")])
    config = {
        "eos_token": {"content": "<|turn|>", "__type": "AddedToken"},
        "added_tokens_decoder": {
            str(end): {"content": "<|turn|>", "special": False},
            str(end + 1): {"content": "<|new|>", "special": True},
            str(end + 2): {"content": "<plain>", "special": False},
            str(end + 90): {"content": "<|gap|>", "special": True},  # the backend cannot give this id
        },
    }
    tokenizer = Tokenizer(backend, config)
    assert tokenizer.encode("<|turn|><|new|><plain>") == [end, end + 1, end + 2]
    assert tokenizer.eos_id == end
    assert {end, end + 1} <= tokenizer.special_ids
    assert end + 2 not in tokenizer.special_ids
    assert tokenizer.token_id("<|gap|>") is None
    assert tokenizer.decode([end, end + 1, end + 2]) == "<plain>"


def test_a_named_token_of_the_vocabulary_is_matched_whole() -> None:
    backend = tokenizers.Tokenizer(models.BPE(vocab={"<": 0, "e": 1, ">": 2, "<e>": 3}, merges=[]))
    tokenizer = Tokenizer(backend, {"eos_token": "<e>"})
    assert tokenizer.encode("e<e>") == [1, 3]
    assert tokenizer.special_ids == {3}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, [1]),
        ({"bos_token": "<s>", "add_bos_token": True}, [1]),
        ({"bos_token": "<s>", "add_bos_token": False}, []),
        ({"bos_token": None, "add_bos_token": True}, [1]),
    ],
)
def test_opening_tokens(config: dict[str, object], expected: list[int]) -> None:
    tokenizer = Tokenizer(toys.sentencepiece(prepend=False), config)
    plain = tokenizer.encode("abc", add_special=False)
    assert tokenizer.encode("abc") == expected + plain
    assert tokenizer.encode("") == expected


def test_opening_token_is_not_doubled_and_no_eos_is_added() -> None:
    backend = toys.sentencepiece(prepend=False)
    tokenizer = Tokenizer(backend, {"bos_token": "<s>", "eos_token": "</s>", "add_eos_token": True})
    assert tokenizer.encode("<s>abc") == tokenizer.encode("abc")
    assert tokenizer.encode("abc")[-1] != 2


def test_add_bos_token_without_a_post_processor() -> None:
    tokenizer = toys.chatml_tokenizer(add_bos_token=True)
    assert tokenizer.encode("a") == [0, *tokenizer.encode("a", add_special=False)]


def test_truncation_and_padding_of_the_file_are_off() -> None:
    backend = toys.byte_level()
    backend.enable_truncation(max_length=4)
    backend.enable_padding(length=8)
    assert len(Tokenizer(backend).encode("abcdefghijk")) == 11
    assert len(Tokenizer(backend).encode("abc")) == 3


def test_lone_surrogates_become_the_replacement_character() -> None:
    tokenizer = Tokenizer(toys.byte_level())
    assert tokenizer.decode(tokenizer.encode("a\ud800b")) == "a\ufffdb"
    assert tokenizer.decode(tokenizer.encode("\ud83c\udf0d")) == "🌍"


def test_ids_without_a_token_are_empty() -> None:
    tokenizer = Tokenizer(toys.byte_level())
    assert tokenizer.token_bytes(tokenizer.vocab_size + 5) == b""
    assert tokenizer.token_bytes(-1) == b""


def test_token_text_is_printable() -> None:
    tokenizer = Tokenizer(toys.byte_level())
    first = tokenizer.encode("🌍")[0]
    assert tokenizer.token_bytes(first) == b"\xf0"
    assert tokenizer.token_text(first) == "\ufffd"
