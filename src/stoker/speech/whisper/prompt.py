"""What the first window is told: the caller's prompt and as many vocabulary terms as fit."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.speech.types import VocabularyUsage
from stoker.speech.whisper.tokenizer import WhisperTokenizer

_MAX_TOKEN_LENGTH = 128  # no token of Whisper's vocabularies stands for more characters


def prompt_budget(text_ctx: int) -> int:
    """Half the decoder's context, less the token that opens a prompt."""
    return text_ctx // 2 - 1


def build_prompt(
    tokenizer: WhisperTokenizer, prompt: str | None, vocabulary: Sequence[str], budget: int
) -> tuple[list[int], VocabularyUsage | None]:
    """The tokens, at most `budget` (the last ones), and which terms went in.

    Terms go in whole and in order; one that does not fit is left out and later ones are still tried.
    """
    start = (prompt or "").strip()
    ids = tokenizer.encode(f" {start}") if start else []
    terms = [term.strip() for term in vocabulary]
    if not any(terms):
        return ids[-budget:], None
    included: list[str] = []
    omitted: list[str] = []
    used = len(ids)
    for term in terms:
        if not term:
            continue
        room = budget - used
        # Terms that clearly cannot fit are not worth joining to the others: there may be thousands.
        if room > 0 and len(term) <= room * _MAX_TOKEN_LENGTH and len(tokenizer.encode(term)) <= room + 1:
            joined = tokenizer.encode(_join(start, [*included, term]))
            if len(joined) <= budget:
                included.append(term)
                ids, used = joined, len(joined)
                continue
        omitted.append(term)
    usage = VocabularyUsage(tuple(included), tuple(omitted), min(used, budget), budget)
    return ids[-budget:], usage


def _join(prompt: str, terms: Sequence[str]) -> str:
    listed = ", ".join(terms)
    return f" {prompt} {listed}" if prompt else f" {listed}"
