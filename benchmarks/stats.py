"""What one streamed reply shows, and how many of them are summed up. Pure functions of recorded times."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.wire import Exchange, Reply, parse_reply


class ServerError(Exception):
    """The server answered something that is not a finished stream."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One streamed reply. Times in seconds on the client's monotonic clock."""

    sent_at: float
    token_times: tuple[float, ...]  # arrival of each frame that carries text; several tokens may share one
    finished_at: float  # arrival of the finish_reason, or of the last text
    num_tokens: int  # usage.completion_tokens, else the number of text frames
    num_prompt_tokens: int | None
    num_cached_tokens: int | None
    finish_reason: str | None
    text: str

    @property
    def ttft_s(self) -> float:
        return self.token_times[0] - self.sent_at

    @property
    def decode_tokens_per_s(self) -> float | None:
        """After the first token; None when there is no second."""
        elapsed = self.finished_at - self.token_times[0]
        return (self.num_tokens - 1) / elapsed if self.num_tokens > 1 and elapsed > 0 else None

    @property
    def gaps_s(self) -> tuple[float, ...]:
        return tuple(b - a for a, b in zip(self.token_times, self.token_times[1:], strict=False))

    def tokens_between(self, start: float, end: float) -> float:
        """Tokens that arrived in [start, end), frames weighted so that they sum to num_tokens."""
        frames = sum(1 for at in self.token_times if start <= at < end)
        return frames * self.num_tokens / len(self.token_times)


def read_stream(exchange: Exchange) -> Stream:
    """A chat or text completion stream. Raises ServerError for anything else, with the server's message."""
    reply = parse_reply(exchange)
    if reply.status != 200:
        raise ServerError(f"HTTP {reply.status}: {_message(reply)}")
    times: list[float] = []
    text: list[str] = []
    usage: dict[str, Any] = {}
    finish_reason: str | None = None
    finished_at = 0.0
    for at, payload in reply.frames:
        frame = json.loads(payload)
        if "error" in frame:
            raise ServerError(f"error in the stream: {json.dumps(frame['error'])}")
        usage = frame.get("usage") or usage
        for choice in frame.get("choices") or ():
            if piece := _text_of(choice):
                times.append(at)
                text.append(piece)
                finished_at = at
            if choice.get("finish_reason"):
                finish_reason, finished_at = choice["finish_reason"], at
    if not times:
        raise ServerError(f"the stream carried no text: {reply.body[:300]!r}")
    return Stream(
        sent_at=exchange.sent_at,
        token_times=tuple(times),
        finished_at=finished_at,
        num_tokens=usage.get("completion_tokens") or len(times),
        num_prompt_tokens=usage.get("prompt_tokens"),
        num_cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        finish_reason=finish_reason,
        text="".join(text),
    )


def _text_of(choice: dict[str, Any]) -> str:
    delta = choice.get("delta") or {}
    for piece in (
        choice.get("text"),
        delta.get("content"),
        delta.get("reasoning"),
        delta.get("reasoning_content"),
    ):
        if isinstance(piece, str) and piece:
            return piece
    return ""


def _message(reply: Reply) -> str:
    try:
        return str(reply.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return repr(reply.body[:300])


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest-rank percentile: the smallest value with at least `share` of the values at or below it."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarize(streams: Sequence[Stream]) -> dict[str, float]:
    """The figures of one concurrent run. Rates in tokens/s, times in milliseconds.

    aggregate: all tokens over the time from the first request sent to the last token, prompts included.
    decode: median over streams of each stream's own rate after its first token.
    """
    start = min(s.sent_at for s in streams)
    end = max(s.finished_at for s in streams)
    gaps = [gap for s in streams for gap in s.gaps_s] or [0.0]
    rates = [s.decode_tokens_per_s for s in streams]
    first = [s.ttft_s for s in streams]
    return {
        "aggregate_tokens_per_s": sum(s.num_tokens for s in streams) / (end - start),
        "decode_tokens_per_s": median([r for r in rates if r is not None] or [0.0]),
        "ttft_p50_ms": 1000 * median(first),
        "ttft_max_ms": 1000 * max(first),
        "gap_p50_ms": 1000 * percentile(gaps, 0.50),
        "gap_p95_ms": 1000 * percentile(gaps, 0.95),
        "gap_max_ms": 1000 * max(gaps),
        "tokens_min": min(s.num_tokens for s in streams),
        "tokens_max": max(s.num_tokens for s in streams),
    }


def medians(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Column by column over runs of the same shape."""
    return {key: median([run[key] for run in runs]) for key in runs[0]}
