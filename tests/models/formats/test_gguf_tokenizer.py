"""Tokenizers built from GGUF metadata, against the libraries the vocabularies come from."""

from __future__ import annotations

import io
import random
from typing import Any

import numpy as np
import pytest
import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

from stoker.errors import CorruptModel, UnsupportedModel
from stoker.models.formats.gguf_tokenizer import build_tokenizer, end_of_generation_ids

# Enough of every script that training finds merges across all the classes the expressions know.
CORPUS = [
    "The quick brown fox doesn't jump over 1234 lazy dogs; it's they'll we've I'M YOU'RE.",
    "def f(x):\n    return x**2 + 3.14159  # naïve café résumé\n\n\nclass A:\n\tpass\r\n",
    "日本語のテキストと中文文本。한국어 텍스트도 있습니다。",
    "العربية والعبرية עברית हिन्दी भाषा ไทย",
    "Ünïcödé ǅungla ß ﬁ ² ½ Ⅷ ١٢٣ 😀👩‍👩‍👧 →←∑∏",
    "    indented\n        more\n\n\n   text   with   runs   of   spaces   ",
] * 3

PIECES = [
    "Hello", " world", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "'s", "'LL", "don't", "12345", "7", "é",
    "e\u0301", "日本", "語", "한국", "العر", "हिन्दी", "\r",
    "😀", "👩‍👩‍👧", "...", "!?", "_", "#", "x=1", "ǅ", "ß", "½",
    "\u00a0", "\u3000", "\u200b", "/", "<s>", "▁", "HELLO", "camelCase", "ᾳ",
]  # fmt: skip


def texts(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    mixed = ["".join(rng.choices(PIECES, k=rng.randint(1, 16))) for _ in range(count)]
    spans = ((32, 0x500), (0x500, 0xD7FF), (0x10000, 0x1F9FF))
    points = [chr(rng.randrange(*rng.choice(spans))) for _ in range(count)]
    return ["", " ", *mixed, *points, *CORPUS]


def byte_level_metadata(trained: Tokenizer, pre: str, **extra: Any) -> dict[str, Any]:
    import json

    model = json.loads(trained.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    merges = [" ".join(pair) for pair in model["merges"]]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.ones(len(tokens), np.int32),
        "tokenizer.ggml.merges": merges,
    } | extra


def train_byte_level(pre_tokenizer: Any, normalizer: Any = None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=600, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def _split(expression: str) -> Any:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(expression), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _digits_then_gpt2() -> Any:
    """As SmolLM2's, StarCoder's and Granite's own tokenizer.json have it."""
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )


_NFC = ("qwen2", "deepseek-r1-qwen", "megrez", "qwen35")
_COMPARED = sorted(
    set(GGUF_PRE_TOKENIZER_SPLITS)
    & {"llama-bpe", "qwen2", "deepseek-r1-qwen", "dbrx", "smaug-bpe", "tekken", "gpt-4o", "qwen35", "llama4"}
)


@pytest.mark.parametrize("pre", [*_COMPARED, "gpt-2", "olmo", "smollm", "refact", "starcoder"])
def test_byte_level(pre: str) -> None:
    if pre in GGUF_PRE_TOKENIZER_SPLITS:
        pre_tokenizer = _split(GGUF_PRE_TOKENIZER_SPLITS[pre])
    elif pre in ("gpt-2", "olmo"):
        pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        pre_tokenizer = _digits_then_gpt2()
    reference = train_byte_level(pre_tokenizer, normalizers.NFC() if pre in _NFC else None)
    built, _ = build_tokenizer(byte_level_metadata(reference, pre), "model.gguf")
    for text in texts(150):
        expected = reference.encode(text).ids
        assert built.encode(text, add_special_tokens=False).ids == expected, repr(text)
        assert built.decode(expected) == reference.decode(expected)


def _gpt2(**extra: Any) -> dict[str, Any]:
    """A hand-made vocabulary: letters, one merge, and tokens of every type."""
    tokens = ["a", "b", "Ġ", "ab", "<|im_start|>", "<|im_end|>", "<think>", "[EMPTY_7]"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array([1, 1, 1, 1, 3, 1, 4, 5], np.int32),
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": 4,
        "tokenizer.ggml.eos_token_id": 5,
        "tokenizer.chat_template": "{{ messages }}",
    } | extra


def test_token_types() -> None:
    tokenizer, _ = build_tokenizer(_gpt2(), "model.gguf")
    assert tokenizer.encode("ab<|im_start|>ba<think>ab<|im_end|>").ids == [3, 4, 1, 0, 6, 3, 5]
    added = tokenizer.get_added_tokens_decoder()
    # A turn-end token is special even where the file calls it an ordinary one.
    assert {index: token.special for index, token in added.items()} == {4: True, 5: True, 6: False}
    assert tokenizer.decode([3, 5, 6]) == "ab<think>"


def test_config() -> None:
    _, config = build_tokenizer(_gpt2(), "model.gguf")
    assert config["bos_token"] == "<|im_start|>"
    assert config["eos_token"] == "<|im_end|>"
    assert "pad_token" not in config
    assert config["chat_template"] == "{{ messages }}"
    assert config["add_bos_token"] is False


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, [3]),
        ({"tokenizer.ggml.add_bos_token": True}, [4, 3]),
        ({"tokenizer.ggml.add_eos_token": True}, [3, 5]),
        ({"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True}, [4, 3, 5]),
        ({"tokenizer.ggml.pre": "llama-bpe"}, [4, 3]),  # adds BOS unless the file says no
        ({"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": False}, [3]),
    ],
)
def test_bos_and_eos(flags: dict[str, Any], expected: list[int]) -> None:
    tokenizer, config = build_tokenizer(_gpt2(**flags), "model.gguf")
    assert tokenizer.encode("ab").ids == expected
    assert tokenizer.encode("ab", add_special_tokens=False).ids == [3]
    assert config["add_bos_token"] == (4 in expected)
    assert config["add_eos_token"] == (5 in expected)


def test_end_of_generation() -> None:
    assert end_of_generation_ids(_gpt2()) == [5]
    ids = {"tokenizer.ggml.eos_token_id": 0, "tokenizer.ggml.eot_token_id": 3}
    assert end_of_generation_ids(_gpt2(**ids)) == [0, 3, 5]
    assert end_of_generation_ids({}) == []


def _train_sentencepiece(**options: Any) -> sentencepiece.SentencePieceProcessor:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in CORPUS for line in text.splitlines()]),
        model_writer=model,
        model_type="bpe",
        vocab_size=500,
        byte_fallback=True,
        character_coverage=0.98,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
        hard_vocab_limit=False,
        **options,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def sentencepiece_metadata(reference: sentencepiece.SentencePieceProcessor, **extra: Any) -> dict[str, Any]:
    def kind(index: int) -> int:
        if reference.is_unknown(index):
            return 2
        if reference.is_control(index):
            return 3
        return 6 if reference.is_byte(index) else 1

    ids = range(reference.get_piece_size())
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [reference.id_to_piece(index) for index in ids],
        "tokenizer.ggml.scores": np.array([reference.get_score(index) for index in ids], np.float32),
        "tokenizer.ggml.token_type": np.array([kind(index) for index in ids], np.int32),
        "tokenizer.ggml.bos_token_id": reference.bos_id(),
        "tokenizer.ggml.eos_token_id": reference.eos_id(),
        "tokenizer.ggml.unknown_token_id": reference.unk_id(),
    } | extra


@pytest.mark.parametrize("prefix", [True, False])
def test_sentencepiece(prefix: bool) -> None:
    reference = _train_sentencepiece(add_dummy_prefix=prefix)
    metadata = sentencepiece_metadata(reference, **{"tokenizer.ggml.add_space_prefix": prefix})
    built, config = build_tokenizer(metadata, "model.gguf")
    assert config["add_bos_token"] is True
    for text in texts(300):
        # The names of control tokens are matched whole here, and SentencePiece drops U+0000.
        if "<s>" in text or "\x00" in text or not text:
            continue
        expected = reference.encode(text)
        assert built.encode(text, add_special_tokens=False).ids == expected, repr(text)
        assert built.encode(text).ids == [reference.bos_id(), *expected]
        assert built.decode(expected) == reference.decode(expected)


def test_sentencepiece_matches_user_defined_tokens_whole() -> None:
    symbols = ["<start>", "\n\n", "▁▁", "▁▁▁"]
    reference = _train_sentencepiece(add_dummy_prefix=False, user_defined_symbols=symbols)
    metadata = sentencepiece_metadata(reference, **{"tokenizer.ggml.add_space_prefix": False})
    for symbol in symbols:
        index = reference.piece_to_id(symbol)
        assert not reference.is_unknown(index)
        # As converters write them: type 4, with real spaces.
        metadata["tokenizer.ggml.token_type"][index] = 4
        metadata["tokenizer.ggml.tokens"][index] = symbol.replace("▁", " ")
    built, _ = build_tokenizer(metadata, "model.gguf")
    for text in ("a<start>b", "x   y  z", "one\n\ntwo\n\n\nthree", "   ", "     a"):
        assert built.encode(text, add_special_tokens=False).ids == reference.encode(text), repr(text)


def test_phi3_markers_swallow_white_space() -> None:
    """Phi-3's tokenizer.json gives its markers `rstrip`; the file cannot say so."""
    tokens = ["<unk>", "<s>", "</s>", "▁", "a", "▁a", "<|endoftext|>", "<|user|>"]
    metadata = {
        "general.architecture": "phi3",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": np.array([0, 0, 0, -2, -3, -1, 0, 0], np.float32),
        "tokenizer.ggml.token_type": np.array([2, 3, 3, 1, 1, 1, 3, 3], np.int32),
        "tokenizer.ggml.add_bos_token": False,
    }
    tokenizer, _ = build_tokenizer(metadata, "model.gguf")
    assert tokenizer.encode("<|user|>\n  a").ids == [7, 5]
    assert tokenizer.encode("<|endoftext|> a").ids == [6, 3, 5]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"tokenizer.ggml.tokens": None}, CorruptModel, "no vocabulary"),
        ({"tokenizer.ggml.tokens": []}, CorruptModel, "no vocabulary"),
        ({"tokenizer.ggml.merges": None}, CorruptModel, "no merges"),
        ({"tokenizer.ggml.merges": ["a z"]}, CorruptModel, "1 merges name tokens"),
        ({"tokenizer.ggml.merges": ["ab"]}, CorruptModel, "1 merges name tokens"),
        ({"tokenizer.ggml.token_type": np.ones(3, np.int32)}, CorruptModel, "token_type is shorter"),
        ({"tokenizer.ggml.pre": "martian"}, UnsupportedModel, "pre-tokenizer 'martian'"),
        ({"tokenizer.ggml.model": "bert"}, UnsupportedModel, "kind 'bert'"),
        ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.merges": None}, CorruptModel, "no scores"),
    ],
)
def test_unusable_metadata(change: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build_tokenizer(_gpt2(**change), "model.gguf")
