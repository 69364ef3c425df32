"""The JSON files beside the weights in a Hugging Face folder: configuration and tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stoker.errors import CorruptModel, UnsupportedModel

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises CorruptModel naming the file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CorruptModel(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise CorruptModel(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise CorruptModel(f"{path} does not hold a JSON object")
    return content


def read_optional_json(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}


def read_tokenizer(folder: Path) -> tuple[Tokenizer, dict[str, Any]]:
    """tokenizer.json and everything said about it elsewhere, merged into one dict: later files
    win, as in transformers (chat_template.jinja over chat_template.json over the config)."""
    path = folder / "tokenizer.json"
    if not path.exists():
        if (folder / "tokenizer.model").exists():
            raise UnsupportedModel(
                f"{folder} has only a SentencePiece tokenizer.model; stoker needs tokenizer.json "
                "(saving the tokenizer with transformers writes one)"
            )
        raise CorruptModel(f"{folder} has no tokenizer.json")
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises a bare Exception for anything it cannot parse
        raise CorruptModel(f"{path} is not a valid tokenizer: {error}") from error
    return tokenizer, tokenizer_config(folder)


def tokenizer_config(folder: Path) -> dict[str, Any]:
    config = read_optional_json(folder / "tokenizer_config.json")
    specials = read_optional_json(folder / "special_tokens_map.json")
    for name in _SPECIAL_TOKENS:
        token = config.get(name) or specials.get(name)
        # Either the text, or an object with the text and how it is matched.
        if isinstance(token, dict):
            token = token.get("content")
        if isinstance(token, str):
            config[name] = token
    template = read_optional_json(folder / "chat_template.json").get("chat_template")
    if template is not None:
        config["chat_template"] = template
    jinja = folder / "chat_template.jinja"
    if jinja.exists():
        try:
            config["chat_template"] = jinja.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CorruptModel(f"cannot read {jinja}: {error}") from error
    return config
