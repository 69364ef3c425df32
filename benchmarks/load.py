"""The load itself: which requests are sent, in which order, and the figures each scenario yields.

Three scenarios: `concurrent` (N short prompts at once), `repeated_long_prompt` (a long prompt nobody has
seen, then the same again) and `interference` (a long prompt arrives while others are decoding).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.stats import Stream, read_stream, summarize
from benchmarks.wire import Endpoint, get, parse_reply, post

# Stories run long, so that a server which cannot ignore EOS still fills its tokens.
_TOPICS = (
    "a lighthouse keeper who collects clocks",
    "two sisters crossing a frozen lake",
    "a baker who lost the sense of smell",
    "the last train through a mountain village",
    "a gardener and a very old map",
    "a violin found in an empty house",
    "a fisherman who could not swim",
    "the night the river changed its course",
    "a teacher in a school without children",
    "a pilot who never looked down",
    "a librarian guarding one blank book",
    "the bridge between two quarrelling towns",
    "a painter who worked only in winter",
    "a doctor on a ship of rats",
    "the shepherd who counted stars",
    "a carpenter building his own boat",
)
_TEXT = """
river stone morning garden window letter winter silver market village engine harbor paper candle shadow
mountain summer kitchen bridge forest mirror station valley library copper thunder island meadow basket
"""
_WORDS = _TEXT.split()


WARM_UP_S = 3.0  # how long streams decode alone before a long prompt joins them
LONG_PROMPT_WORDS = 2270  # about 2.4k tokens of a byte-level BPE vocabulary


@dataclass(frozen=True, slots=True)
class Load:
    """How requests are made. `extra` goes with each of them: what a server names in its own way."""

    endpoint: Endpoint
    model: str = "default"
    route: str = "chat"  # or "completions"
    num_tokens: int = 128
    long_prompt_words: int = LONG_PROMPT_WORDS
    extra: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0  # of the texts; change it from run to run so that no prompt is seen twice
    timeout_s: float = 600.0


def body_of(load: Load, text: str, num_tokens: int) -> tuple[str, dict[str, Any]]:
    """Path and JSON of one greedy, streamed request.

    `ignore_eos` is an extension that several servers know; the others ignore the field and may stop
    early, which the token counts then show.
    """
    body: dict[str, Any] = {
        "model": load.model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "max_tokens": num_tokens,
        "ignore_eos": True,
        **load.extra,
    }
    if load.route == "chat":
        return "/chat/completions", {**body, "messages": [{"role": "user", "content": text}]}
    return "/completions", {**body, "prompt": text}


async def stream(load: Load, text: str, num_tokens: int | None = None) -> Stream:
    """One reply. Raises ServerError, OSError, TimeoutError."""
    path, body = body_of(load, text, num_tokens or load.num_tokens)
    return read_stream(await post(load.endpoint, path, body, load.timeout_s))


async def model_id(endpoint: Endpoint) -> str:
    """The first id of /v1/models, or `default` when the server lists none."""
    reply = await get(endpoint, endpoint.base_path + "/models")
    models = reply.json().get("data") if reply.status == 200 else None
    return str(models[0]["id"]) if models else "default"


async def first_answer(load: Load) -> None:
    """One token, not streamed: what start-up time is measured to."""
    path, body = body_of(load, "Hello", 1)
    reply = parse_reply(await post(load.endpoint, path, {**body, "stream": False}, load.timeout_s))
    if reply.status != 200:
        raise ConnectionError(f"HTTP {reply.status}: {reply.body[:300]!r}")


def short_prompt(load: Load, index: int) -> str:
    """A prompt of about 30 tokens that no other index and seed shares."""
    topic = _TOPICS[index % len(_TOPICS)]
    return f"Story {load.seed}-{index}. Write a long and detailed story about {topic}, with many chapters."


def long_prompt(load: Load, index: int) -> str:
    """A text whose very first words differ for each seed and index, so that no prefix of it is cached."""
    rng = random.Random(f"{load.seed}/{index}")
    words = [str(rng.randrange(10**6)), *(rng.choice(_WORDS) for _ in range(load.long_prompt_words))]
    for i in range(12, len(words), 13):
        words[i] += "."
    return " ".join(words) + "\nContinue in the same manner."


async def concurrent(load: Load, num_streams: int) -> dict[str, float]:
    """N requests sent at the same moment."""
    prompts = [short_prompt(load, i) for i in range(num_streams)]
    return summarize(await asyncio.gather(*(stream(load, prompt) for prompt in prompts)))


async def repeated_long_prompt(load: Load, index: int = 0) -> dict[str, float]:
    """The same long prompt twice, alone: time to first token cold, then warm."""
    prompt = long_prompt(load, index)
    cold = await stream(load, prompt, 8)
    warm = await stream(load, prompt, 8)
    return {
        "prompt_tokens": float(cold.num_prompt_tokens or 0),
        "cold_ttft_ms": 1000 * cold.ttft_s,
        "warm_ttft_ms": 1000 * warm.ttft_s,
        "cold_cached_tokens": float(cold.num_cached_tokens or 0),
        "warm_cached_tokens": float(warm.num_cached_tokens or 0),
    }


async def interference(load: Load, num_streams: int) -> dict[str, float]:
    """N decoding streams, then a long prompt beside them: what it costs them, and what they cost it.

    before: their rate from the moment all of them decode until the long prompt is sent. during: their
    rate from then until the long prompt's first token. Streams are given enough tokens to outlive that
    window; when one ended early the figures are not comparable, and `outlived` says so with 0.
    """
    busy = replace(load, num_tokens=load.num_tokens * 8)
    tasks = [asyncio.create_task(stream(busy, short_prompt(busy, 100 + i))) for i in range(num_streams)]
    await asyncio.sleep(WARM_UP_S)
    late = await stream(load, long_prompt(load, 100), 8)
    streams = await asyncio.gather(*tasks)
    start, first = late.sent_at, late.token_times[0]
    settled = max(s.token_times[0] for s in streams)
    before = sum(s.tokens_between(settled, start) for s in streams) / max(start - settled, 1e-9)
    during = sum(s.tokens_between(start, first) for s in streams) / (first - start)
    return {
        "before_tokens_per_s": before,
        "during_tokens_per_s": during,
        "kept_share": during / before if before else 0.0,
        "gap_max_ms": 1000 * max(_longest_gap(s, start, first) for s in streams),
        "late_ttft_ms": 1000 * late.ttft_s,
        "outlived": float(all(s.finished_at >= first for s in streams) and settled < start),
    }


def _longest_gap(one: Stream, start: float, end: float) -> float:
    """The longest silence of a stream that overlaps [start, end]."""
    pairs = zip(one.token_times, one.token_times[1:], strict=False)
    return max((b - a for a, b in pairs if b > start and a < end), default=end - start)
