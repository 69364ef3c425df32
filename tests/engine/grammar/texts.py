"""Following texts through a grammar byte by byte, on a vocabulary of the bytes and a few longer tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stoker.core import Constraint, ConstraintKind
from stoker.engine.grammar import GrammarCompiler, RowMatcher, Vocabulary
from stoker.errors import GrammarError

PIECES = (b"ab", b"true", b'", "', b"\n\n", b"</think>", b">x", b"<think>", b"<end>")
THINK_END, RUN_ON, THINK, END = 260, 261, 262, 263


def byte_vocabulary() -> Vocabulary:
    def encode(text: str) -> list[int]:
        # Tags are matched whole. Other texts are single bytes: where a grammar leaves no choice, llguidance
        # allows only the tokens that encoding gives.
        data = text.encode()
        return [256 + PIECES.index(data)] if text.startswith("<") and data in PIECES else list(data)

    tokens = [bytes([byte]) for byte in range(256)] + list(PIECES)
    return Vocabulary(tokens, frozenset({END}), encode)


def allowed(matcher: RowMatcher) -> set[int]:
    words = np.asarray(matcher.mask())
    return {i for i in range(len(byte_vocabulary().tokens)) if int(words[i // 32]) >> (i % 32) & 1}


def follow(matcher: RowMatcher, token_ids: Sequence[int]) -> bool:
    """Takes the tokens; False at the first that is masked out or behind a complete text."""
    for token_id in token_ids:
        if matcher.is_complete or token_id not in allowed(matcher):
            return False
        matcher.accept(token_id)
        if matcher.failure is not None:
            raise GrammarError(matcher.failure)
    return True


def accepts(grammars: GrammarCompiler, kind: ConstraintKind, source: str, text: str) -> bool:
    """Whether `text` is a whole text of the grammar."""
    matcher = grammars.matcher(Constraint(kind, source), [END])
    return follow(matcher, text.encode()) and (matcher.is_complete or END in allowed(matcher))
