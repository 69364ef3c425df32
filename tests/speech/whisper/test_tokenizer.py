from __future__ import annotations

import pytest

from stoker.errors import InvalidRequest
from stoker.speech.whisper.languages import CODES, find_code
from stoker.speech.whisper.prompt import build_prompt
from stoker.speech.whisper.tokenizer import WhisperTokenizer

from . import tiny


@pytest.fixture(scope="module")
def tokenizer() -> WhisperTokenizer:
    return WhisperTokenizer(tiny.tiny_tokenizer())


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("en", "en"), ("EN", "en"), ("English", "en"), ("en-US", "en"), ("zh-CN", "zh"), ("zh_Hant", "zh"),
        ("jw", "jw"), ("jv", "jw"), ("Mandarin", "zh"), ("Haitian Creole", "ht"), (" german ", "de"),
        ("haw", "haw"), ("xx", None), ("", None), ("deutschx", None), ("iw", "he"),
    ],
)  # fmt: skip
def test_languages_by_code_or_name(said: str, code: str | None) -> None:
    assert find_code(said) == code


def test_every_language_of_whisper_in_the_order_of_its_tokens() -> None:
    from transformers.models.whisper.tokenization_whisper import LANGUAGES

    assert tuple(LANGUAGES) == CODES
    for code, name in LANGUAGES.items():
        assert find_code(name) == code


def test_languages_of_this_checkpoint(tokenizer: WhisperTokenizer) -> None:
    assert tokenizer.language_code("German") == "de"
    for detect in (None, "auto", "AUTO", ""):
        assert tokenizer.language_code(detect) is None
    for unknown in ("fr", "xx"):
        with pytest.raises(InvalidRequest, match=r"unsupported language: .*en, de, ja") as caught:
            tokenizer.language_code(unknown)
        assert caught.value.param == "language"


class EnglishOnly:
    """The ids of openai/whisper-base.en's control tokens, which list languages it was not trained with."""

    _NAMES = ("startoftranscript", "en", "de", "translate", "transcribe", "startoflm", "startofprev")
    _IDS = {"<|endoftext|>": 50256, "<|nocaptions|>": 50361, "<|notimestamps|>": 50362} | {
        f"<|{name}|>": 50257 + at for at, name in enumerate(_NAMES)
    }

    def token_to_id(self, name: str) -> int | None:
        return self._IDS.get(name)


@pytest.mark.parametrize("language", [None, "auto", "", "en", "EN", "English", "en-US"])
def test_an_english_only_checkpoint_hears_english(language: str | None) -> None:
    tokenizer = WhisperTokenizer(EnglishOnly())  # type: ignore[arg-type]
    assert tokenizer.language_code(language) == "en"
    assert tokenizer.start_sequence("en", "transcribe", False) == [50257]


@pytest.mark.parametrize("language", ["de", "German", "xx"])
def test_an_english_only_checkpoint_refuses_others(language: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"unsupported language: {language} \(this model knows en\)"):
        WhisperTokenizer(EnglishOnly()).language_code(language)  # type: ignore[arg-type]


def test_start_sequences(tokenizer: WhisperTokenizer) -> None:
    assert tokenizer.start_sequence("de", "translate", False) == [257, 259, 261]
    assert tokenizer.start_sequence("en", "transcribe", True) == [257, 258, 262, 266]


def test_control_tokens_in_a_prompt_are_dropped(tokenizer: WhisperTokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode("a<|endoftext|>b<|en|>c")) == "abc"


def test_words_keep_their_space_and_punctuation_stands_alone(tokenizer: WhisperTokenizer) -> None:
    ids = tokenizer.encode(" Héllo, you 😀")
    words = tokenizer.split_words(ids, "en")
    # This tokenizer has single bytes, so every comma and space is a token of its own.
    assert "".join(text for text, _ in words) == " Héllo, you 😀"
    assert [token for _, tokens in words for token in tokens] == ids
    assert (",", tokenizer.encode(",")) in words
    characters = tokenizer.split_words(tokenizer.encode("日本é"), "ja")
    assert [text for text, _ in characters] == ["日", "本", "é"]
    assert [len(tokens) for _, tokens in characters] == [3, 3, 2]


def test_cut_off_characters_are_not_lost(tokenizer: WhisperTokenizer) -> None:
    ids = tokenizer.encode("日本")[:-1]
    assert sum(len(tokens) for _, tokens in tokenizer.split_words(ids, "ja")) <= len(ids)


def test_a_prompt_keeps_its_end(tokenizer: WhisperTokenizer) -> None:
    ids, usage = build_prompt(tokenizer, "x" * 50 + "end", (), 10)
    assert tokenizer.decode(ids) == "x" * 7 + "end"
    assert usage is None
    assert build_prompt(tokenizer, None, (), 10) == ([], None)


def test_vocabulary_goes_in_whole_and_in_order(tokenizer: WhisperTokenizer) -> None:
    # One token per byte: " Ann, Bo" is 8 tokens, " Ann, Bo, Al" 12.
    ids, usage = build_prompt(tokenizer, None, ["Ann", "Constantinople", " Bo ", "", "Al"], 12)
    assert usage is not None
    assert usage.included == ("Ann", "Bo", "Al")
    assert usage.omitted == ("Constantinople",)
    assert (usage.token_count, usage.token_budget) == (12, 12)
    assert tokenizer.decode(ids) == " Ann, Bo, Al"


def test_vocabulary_follows_the_prompt(tokenizer: WhisperTokenizer) -> None:
    ids, usage = build_prompt(tokenizer, "Hi.", ["Ann"], 100)
    assert tokenizer.decode(ids) == " Hi. Ann"
    full, none = build_prompt(tokenizer, "y" * 20, ["Ann"], 10)
    assert usage is not None
    assert none is not None
    assert none.omitted == ("Ann",)
    assert (len(full), none.token_count) == (10, 10)


def test_thousands_of_terms_are_quick_to_refuse(tokenizer: WhisperTokenizer) -> None:
    terms = [f"term{i}" + "z" * (i % 7 * 1000) for i in range(8192)]
    _, usage = build_prompt(tokenizer, None, terms, 223)
    assert usage is not None
    assert len(usage.included) + len(usage.omitted) == 8192
    assert usage.token_count <= 223
