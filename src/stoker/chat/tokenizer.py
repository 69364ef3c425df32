"""A model's tokenizer: text to ids, and each id back to its exact bytes.

Wraps a `tokenizers.Tokenizer` and the facts of tokenizer_config.json. It knows nothing of chat;
streaming text comes from `detokenizer.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import tokenizers

from stoker.chat.pieces import PieceDecoder

# Names whose tokens transformers treats as special, wherever tokenizer.json lists them.
_SPECIAL_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class Tokenizer:
    """Thread-safe after construction.

    `backend` is taken over: truncation and padding are switched off, and added tokens that only
    tokenizer_config.json knows are registered, as transformers does on loading.
    `config` is the content of tokenizer_config.json, or the same built from GGUF metadata.
    """

    def __init__(self, backend: tokenizers.Tokenizer, config: Mapping[str, Any] | None = None) -> None:
        self.config: dict[str, Any] = dict(config or {})
        self._backend = backend
        backend.no_truncation()  # some files carry the window they were trained with
        backend.no_padding()
        self.special_tokens: dict[str, str] = _named_tokens(self.config)
        self._register_added_tokens()
        self._added = {i: token.content for i, token in backend.get_added_tokens_decoder().items()}
        self.special_ids: frozenset[int] = self._find_special_ids()
        self._pieces = PieceDecoder.from_backend(backend.decoder)
        self._bytes: dict[int, bytes] = {}
        self.vocab_size: int = backend.get_vocab_size(with_added_tokens=True)
        self.bos_token: str | None = self.special_tokens.get("bos_token")
        self.eos_token: str | None = self.special_tokens.get("eos_token")
        self.bos_id: int | None = self.token_id(self.bos_token)
        self.eos_id: int | None = self.token_id(self.eos_token)
        self._prefix_ids: list[int] = self._find_prefix_ids()

    def to_json(self) -> str:
        """Everything that decides which ids a text becomes."""
        return str(self._backend.to_str())

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        """Ids of `text`; control tokens written out in it become their ids.

        `add_special` puts the tokenizer's own opening tokens (usually BOS) first, unless the text
        begins with them already. A closing EOS is never added: a prompt is there to be continued.
        Lone surrogates, which JSON can carry and UTF-8 cannot, become U+FFFD.
        """
        # A batch of one: unlike `encode` it lets other threads run, and a long text takes seconds.
        (encoding,) = self._backend.encode_batch_fast([_well_formed(text)], add_special_tokens=False)
        ids: list[int] = encoding.ids
        prefix = self._prefix_ids
        if add_special and prefix and ids[: len(prefix)] != prefix:
            return [*prefix, *ids]
        return ids

    @cached_property
    def longest_token(self) -> int:
        """Most bytes that one token stands for, counted generously."""
        return max(len(piece.encode()) for piece in self._backend.get_vocab())

    def decode(self, ids: Iterable[int]) -> str:
        """Text of a whole sequence, special tokens skipped: the inverse of `encode`.

        Takes off the space SentencePiece puts before a text. A reply is the middle of a text and
        keeps it, so replies go through `token_bytes` instead.
        """
        data = b"".join(self.token_bytes(i) for i in ids if i not in self.special_ids)
        for _ in range(self._pieces.strips_start):
            data = data.removeprefix(b" ")
        return data.decode("utf-8", "replace")

    def raw_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of all tokens one after another, special ones by their names."""
        return b"".join(map(self.token_bytes, ids))

    def text_bytes(self, ids: Iterable[int]) -> bytes:
        """The text that `encode` made these ids from: `raw_bytes` without the space SentencePiece
        puts before a text."""
        data = self.raw_bytes(ids)
        for _ in range(self._pieces.strips_start):
            data = data.removeprefix(b" ")
        return data

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes this token adds to a text, possibly a part of a character.

        For a special token, the bytes of its name. Empty for an id without a token (embedding
        matrices are often padded past the vocabulary).
        """
        data = self._bytes.get(token_id)
        if data is None:
            data = self._bytes[token_id] = self._look_up(token_id)
        return data

    def token_text(self, token_id: int) -> str:
        """A printable form of one token; parts of a character show as U+FFFD."""
        return self.token_bytes(token_id).decode("utf-8", "replace")

    def token_id(self, token: str | None) -> int | None:
        """The id whose vocabulary string is `token`, if there is one."""
        if token is None:
            return None
        found: int | None = self._backend.token_to_id(token)
        return found

    def is_added(self, token_id: int) -> bool:
        """Whether the token is matched whole in any text, special or not."""
        return token_id in self._added

    def _look_up(self, token_id: int) -> bytes:
        if token_id in self._added:
            content = self._added[token_id]
            if token_id in self.special_ids:
                return content.encode("utf-8", "replace")
            return self._pieces.added(content)
        piece = self._backend.id_to_token(token_id) if token_id >= 0 else None
        if piece is None:
            return b""
        if token_id in self.special_ids:
            return str(piece).encode("utf-8", "replace")
        return self._pieces.ordinary(piece)

    def _register_added_tokens(self) -> None:
        """Adds what tokenizer_config.json lists and tokenizer.json does not."""
        backend = self._backend
        known = backend.get_added_tokens_decoder()
        for token_id, entry in sorted(_added_entries(self.config).items()):
            next_id = max([backend.get_vocab_size(with_added_tokens=False) - 1, *known]) + 1
            if token_id in known or backend.token_to_id(entry["content"]) not in (token_id, None):
                continue
            if backend.token_to_id(entry["content"]) is None and token_id != next_id:
                continue  # the backend would give it another id than the model was trained with
            flags = {
                k: bool(entry[k]) for k in ("single_word", "lstrip", "rstrip", "normalized") if k in entry
            }
            token = tokenizers.AddedToken(entry["content"], special=bool(entry.get("special")), **flags)
            add = backend.add_special_tokens if entry.get("special") else backend.add_tokens
            add([token])
            known = backend.get_added_tokens_decoder()
        named = {self.special_tokens[name] for name in _SPECIAL_NAMES if name in self.special_tokens}
        listed = {token.content for token in known.values()}
        late = sorted(t for t in named - listed if backend.token_to_id(t) is not None)
        if late:
            backend.add_special_tokens(
                [tokenizers.AddedToken(t, special=True, normalized=False) for t in late]
            )

    def _find_special_ids(self) -> frozenset[int]:
        ids = {i for i, token in self._backend.get_added_tokens_decoder().items() if token.special}
        ids |= {i for i, entry in _added_entries(self.config).items() if entry.get("special")} & set(
            self._added
        )
        names = [self.special_tokens[name] for name in _SPECIAL_NAMES if name in self.special_tokens]
        for field in ("additional_special_tokens", "extra_special_tokens"):
            listed = self.config.get(field) or ()
            names += [_content(t) or "" for t in (listed.values() if isinstance(listed, dict) else listed)]
        ids |= {i for i in map(self.token_id, names) if i is not None}
        return frozenset(ids)

    def _find_prefix_ids(self) -> list[int]:
        """What the tokenizer puts before a text. `add_bos_token` in the config wins over the
        post-processor of tokenizer.json, as in transformers."""
        probe = self._backend.encode("a", add_special_tokens=True)
        prefix: list[int] = []
        for token_id, is_special in zip(probe.ids, probe.special_tokens_mask, strict=True):
            if not is_special:
                break
            prefix.append(token_id)
        wanted = self.config.get("add_bos_token")
        if self.bos_id is None or not isinstance(wanted, bool):
            return prefix
        if wanted:
            return prefix if self.bos_id in prefix else [self.bos_id, *prefix]
        return [i for i in prefix if i != self.bos_id]


def _well_formed(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # also joins surrogate pairs that were escaped separately
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _content(token: object) -> str | None:
    """A token in a config file is a string or a serialized AddedToken."""
    if isinstance(token, Mapping):
        token = token.get("content")
    return token if isinstance(token, str) else None


def _named_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """`bos_token`, `eos_token` and any other `*_token`, by name."""
    found = {name: _content(value) for name, value in config.items() if name.endswith("_token")}
    return {name: content for name, content in found.items() if content is not None}


def _added_entries(config: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    listed = config.get("added_tokens_decoder")
    if not isinstance(listed, Mapping):
        return {}
    return {
        int(key): entry
        for key, entry in listed.items()
        if str(key).isdigit() and isinstance(entry, Mapping) and isinstance(entry.get("content"), str)
    }
