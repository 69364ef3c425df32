"""Texts to the ids an encoder reads: many at once, with the special tokens before and after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers

from stoker.chat.tokenizer import Tokenizer
from stoker.embed.packing import Tokens

_MARK = "a"  # any text that becomes at least one ordinary token


class SentenceTokenizer:
    """Thread-safe after construction. `backend` is taken over."""

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        config: Mapping[str, Any] | None = None,
        *,
        lowercases: bool = False,
    ) -> None:
        facts = Tokenizer(backend, config)  # registers what only the config knows; no truncation, no padding
        self._backend = backend
        self._lowercases = lowercases
        self.vocab_size = facts.vocab_size
        self.model_max_length = _sane_length(facts.config.get("model_max_length"))
        self.prefix, self.suffix = self._find_frame(facts)
        pair = backend.encode(_MARK, _MARK)
        # What stands between the texts of a pair, and after the second one.
        self._between, self._after_pair = _split_pair(pair, len(self.ids([_MARK])[0]), len(self.prefix))
        self._types_pairs = any(pair.type_ids)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without special tokens."""
        if self._lowercases:
            texts = [text.lower() for text in texts]
        return [
            encoding.ids
            for encoding in self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        ]

    @property
    def num_special(self) -> int:
        """Tokens that a single text gets beside its own."""
        return len(self.prefix) + len(self.suffix)

    @property
    def num_special_of_pair(self) -> int:
        return len(self.prefix) + len(self._between) + len(self._after_pair)

    def frame(self, ids: Sequence[int]) -> Tokens:
        """With the special tokens around, unless they stand there already."""
        inner = tuple(ids)
        if self.num_special and len(inner) >= self.num_special:
            begins = inner[: len(self.prefix)] == self.prefix
            ends = inner[len(inner) - len(self.suffix) :] == self.suffix
            if begins and ends:
                return Tokens(inner)
        return Tokens((*self.prefix, *inner, *self.suffix))

    def frame_pair(self, first: Sequence[int], second: Sequence[int]) -> Tokens:
        head = (*self.prefix, *first, *self._between)
        num_first = len(head) if self._types_pairs else None
        return Tokens((*head, *second, *self._after_pair), num_first)

    def _find_frame(self, facts: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """From the post-processor; add_bos_token and add_eos_token of the config win over it."""
        probe = self._backend.encode(_MARK)
        special = [bool(flag) for flag in probe.special_tokens_mask]
        if False in special:
            start = special.index(False)
            end = len(special) - special[::-1].index(False)
            prefix, suffix = tuple(probe.ids[:start]), tuple(probe.ids[end:])
        else:
            prefix, suffix = (), ()
        bos, eos = facts.bos_id, facts.eos_id
        if facts.config.get("add_bos_token") is True and bos is not None and bos not in prefix:
            prefix = (bos, *prefix)
        if facts.config.get("add_eos_token") is True and eos is not None and eos not in suffix:
            suffix = (*suffix, eos)
        return prefix, suffix


def _split_pair(
    pair: tokenizers.Encoding, num_mark: int, num_prefix: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens between the two texts, and after the second."""
    rest = list(zip(pair.ids, pair.special_tokens_mask, strict=True))[num_prefix + num_mark :]
    between = []
    while rest and rest[0][1]:
        between.append(rest.pop(0)[0])
    return tuple(between), tuple(id for id, is_special in rest[num_mark:] if is_special)


def _sane_length(value: object) -> int | None:
    """transformers writes 10**30 for "no limit"."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**40 else None
