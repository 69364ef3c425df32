"""The JSON files beside the weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models

from stoker.errors import CorruptModel, UnsupportedModel
from stoker.models.formats.hf_folder import read_json, read_tokenizer, tokenizer_config


def _put(folder: Path, **files: Any) -> None:
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / f"{name}.json").write_text(text, encoding="utf-8")


def test_tokenizer(tmp_path: Path) -> None:
    Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")])).save(str(tmp_path / "tokenizer.json"))
    _put(tmp_path, tokenizer_config={"eos_token": "ab", "add_bos_token": False})
    tokenizer, config = read_tokenizer(tmp_path)
    assert tokenizer.encode("abb").ids == [2, 1]
    assert config == {"eos_token": "ab", "add_bos_token": False}


def test_special_tokens_are_texts(tmp_path: Path) -> None:
    _put(
        tmp_path,
        tokenizer_config={"eos_token": {"content": "</s>", "lstrip": False}, "bos_token": None},
        special_tokens_map={"bos_token": {"content": "<s>"}, "eos_token": "wrong", "pad_token": "<pad>"},
    )
    config = tokenizer_config(tmp_path)
    assert (config["bos_token"], config["eos_token"], config["pad_token"]) == ("<s>", "</s>", "<pad>")


def test_the_last_chat_template_wins(tmp_path: Path) -> None:
    _put(tmp_path, tokenizer_config={"chat_template": "one"})
    assert tokenizer_config(tmp_path)["chat_template"] == "one"
    _put(tmp_path, chat_template={"chat_template": "two"})
    assert tokenizer_config(tmp_path)["chat_template"] == "two"
    (tmp_path / "chat_template.jinja").write_text("thrée", encoding="utf-8")
    assert tokenizer_config(tmp_path)["chat_template"] == "thrée"


def test_no_files_no_config(tmp_path: Path) -> None:
    assert tokenizer_config(tmp_path) == {}


def test_only_a_sentencepiece_model(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(b"\x0a")
    with pytest.raises(UnsupportedModel, match=r"needs tokenizer\.json"):
        read_tokenizer(tmp_path)


def test_no_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(CorruptModel, match=r"no tokenizer\.json"):
        read_tokenizer(tmp_path)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"model": {"type": "Martian"}}'])
def test_damaged_tokenizer(content: str, tmp_path: Path) -> None:
    _put(tmp_path, tokenizer=content)
    with pytest.raises(CorruptModel, match=r"tokenizer\.json is not a valid tokenizer"):
        read_tokenizer(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "[" * 100_000])
def test_damaged_json(content: str, tmp_path: Path) -> None:
    _put(tmp_path, config=content)
    with pytest.raises(CorruptModel, match=r"config\.json"):
        read_json(tmp_path / "config.json")


def test_json_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(CorruptModel, match=r"config\.json"):
        read_json(tmp_path / "config.json")
