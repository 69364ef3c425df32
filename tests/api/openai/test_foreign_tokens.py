"""OpenAI's token ids where the vocabulary is missing or does not know them."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from stoker.api.openai.embeddings.foreign_tokens import is_openai_model, text_of
from stoker.errors import InvalidRequest

MODEL = "text-embedding-3-small"


def test_only_openais_embedding_models() -> None:
    assert is_openai_model(MODEL)
    assert not is_openai_model("all-minilm-l6-v2")
    assert not is_openai_model("gpt-4o")


def test_without_tiktoken_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(InvalidRequest, match="check_embedding_ctx_length=False"):
        text_of(MODEL, [1])


def test_ids_become_text_and_unknown_ones_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(ids: list[int]) -> str:
        words = {0: "one", 1: " two"}  # 2 is a gap
        return "".join(words[id] for id in ids)

    encoding = SimpleNamespace(n_vocab=4, decode=decode)
    monkeypatch.setitem(sys.modules, "tiktoken", SimpleNamespace(encoding_for_model=lambda name: encoding))
    assert text_of(MODEL, [0, 1]) == "one two"
    for wrong in (2, 4, -1):
        with pytest.raises(InvalidRequest, match=f"token {wrong}"):
            text_of(MODEL, [0, wrong])
