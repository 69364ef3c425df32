"""Log-probabilities on the wire: OpenAI's chat entries with the token's id added, and the legacy
lists of text completions beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from stoker.chat.reply import LogprobEntry, TopLogprob


def content_block(entries: Iterable[LogprobEntry]) -> dict[str, Any]:
    return {"content": [_entry(entry) for entry in entries]}


def legacy_block(entries: Sequence[LogprobEntry], top: int, offset: int) -> dict[str, Any]:
    """The legacy shape merged with `content`, so clients of either can read it.

    `offset` is the character at which the first entry's token begins in the choice's text.
    `top_logprobs` is null when no alternatives were asked for.
    """
    offsets: list[int] = []
    for entry in entries:
        offsets.append(offset)
        offset += text_length(entry)
    return {
        "tokens": [entry.token for entry in entries],
        "token_logprobs": [entry.logprob for entry in entries],
        "top_logprobs": [_by_token(entry.top_logprobs) for entry in entries] if top else None,
        "text_offset": offsets,
        **content_block(entries),
    }


def text_length(entry: LogprobEntry) -> int:
    """Characters that begin in this token: its UTF-8 bytes that are not continuation bytes."""
    return sum(1 for byte in entry.bytes or () if byte & 0xC0 != 0x80)


def _by_token(candidates: list[TopLogprob]) -> dict[str, float]:
    """Different ids can print alike; the likeliest one is kept."""
    table: dict[str, float] = {}
    for candidate in candidates:
        table.setdefault(candidate.token, candidate.logprob)
    return table


def _entry(entry: LogprobEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "token": entry.token,
        "logprob": entry.logprob,
        "bytes": entry.bytes,
        "top_logprobs": [_candidate(candidate) for candidate in entry.top_logprobs],
    }


def _candidate(candidate: TopLogprob) -> dict[str, Any]:
    return {
        "id": candidate.id,
        "token": candidate.token,
        "logprob": candidate.logprob,
        "bytes": candidate.bytes,
    }
