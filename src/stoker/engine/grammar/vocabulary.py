"""What a grammar must know of a model's tokens: their bytes and which of them are not text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from llguidance import LLTokenizer

_SENTINEL = "\x02"
# Tokens that llguidance knows to be allowed or not as a whole, instead of walking through them one by
# one. Its own slices are parts of JSON strings; words are what other grammars most often allow, and halve
# the time of a mask in free text.
_WORDS = ["[a-z]{1,8}", "[ ][a-z]{1,8}"]


@dataclass(frozen=True)
class Vocabulary:
    tokens: Sequence[bytes]  # by id: what the token adds to a reply; a special token's name
    special_ids: frozenset[int]  # never part of a text; a grammar may still name one as <name>
    encode: Callable[[str], list[int]]  # without opening tokens; may add a space or lose characters

    @property
    def size(self) -> int:
        return len(self.tokens)

    @cached_property
    def tokenizer(self) -> LLTokenizer:
        """llguidance's form of it. Takes about a quarter of a second for 50 000 tokens."""
        slices = [*_WORDS, *LLTokenizer.general_slices()]
        return LLTokenizer(_Tokens(self), slices=slices)  # type: ignore[arg-type]  # duck-typed, as its own wrapper

    def tokens_of(self, text: str) -> list[int]:
        """Tokens that spell `text` and nothing else: the ones the model knows it by where possible. Ends
        where the vocabulary has no token for what comes next."""
        data = text.encode()
        ids = self.encode(text)
        if self._spell(ids) == data:
            return ids
        # SentencePiece puts a space before a text; behind a character that no token holds, it does not.
        ids = self.encode(_SENTINEL + text)
        for cut in range(1, min(4, len(ids)) + 1):
            if self._spell(ids[:cut]).endswith(_SENTINEL.encode()) and self._spell(ids[cut:]) == data:
                return ids[cut:]
        return self._longest_first(data)

    def _spell(self, ids: Sequence[int]) -> bytes:
        return b"".join(self.tokens[token_id] for token_id in ids)

    def _longest_first(self, data: bytes) -> list[int]:
        ids: list[int] = []
        at = 0
        while at < len(data):
            ends = range(min(len(data), at + self._longest), at, -1)
            token_id = next((self._ids[data[at:end]] for end in ends if data[at:end] in self._ids), None)
            if token_id is None:
                break
            ids.append(token_id)
            at += len(self.tokens[token_id])
        return ids

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        ordinary = ((t, i) for i, t in enumerate(self.tokens) if t and i not in self.special_ids)
        return dict(ordinary)

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._ids), default=0)

    def straddlers(self, marker: bytes, num_matched: int) -> list[int]:
        """Tokens that complete `marker`, of which the first `num_matched` bytes are there already,
        and go on behind it."""
        rest = marker[num_matched:]
        if num_matched:
            return [i for i, t in enumerate(self.tokens) if len(t) > len(rest) and t.startswith(rest)]
        return [i for i, t in enumerate(self.tokens) if rest in t and not t.endswith(rest)]

    def id_of(self, text: str) -> int | None:
        """The one token that is exactly `text`, if encoding it gives a single token."""
        ids = self.encode(text)
        return ids[0] if len(ids) == 1 else None


class _Tokens:
    """The protocol LLTokenizer reads. It is told of an end token that no model has, one past the
    vocabulary: which of the model's tokens end a reply is the request's business, see matcher.py."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        # Asked for each text that a grammar leaves no choice about, such as a schema's keys: again and again.
        self._encode = lru_cache(maxsize=4096)(vocabulary.tokens_of)
        self.eos_token_id = vocabulary.size
        self.tokens = [*vocabulary.tokens, b"<|end of the grammar|>"]
        self.special_token_ids = [*sorted(vocabulary.special_ids), self.eos_token_id]

    def __call__(self, text: str | bytes) -> list[int]:
        return list(self._encode(text if isinstance(text, str) else text.decode("utf-8", "replace")))
