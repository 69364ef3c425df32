"""Stand-ins small enough to read: an engine that emits a fixed list of tokens, and a tokenizer
whose ids 0..255 are the bytes themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import tokenizers
from tokenizers import decoders, models, pre_tokenizers

from stoker.cache.disk.stats import NOTHING_TO_FLUSH, DiskStats, FlushReport
from stoker.chat.model import TextModel
from stoker.core import (
    Alternative,
    ErrorEvent,
    Event,
    FinishEvent,
    GenerationRequest,
    PromptEvent,
    TokenEvent,
)
from stoker.errors import ContextLengthExceeded, QueueFull

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
IM_START, IM_END = 256, 257
FIRST_PIECE = 258


def byte_backend(pieces: Sequence[str] = ()) -> tokenizers.Tokenizer:
    """Ids 0..255 are bytes, 256 and 257 the ChatML marks, then `pieces` (which encoding never
    picks: there are no merges)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]  # GPT-2's byte alphabet
    others = [byte for byte in range(256) if byte not in printable]
    letter = {byte: chr(byte) for byte in printable} | {b: chr(256 + n) for n, b in enumerate(others)}
    vocab = {letter[byte]: byte for byte in range(256)}
    vocab |= {"<|im_start|>": IM_START, "<|im_end|>": IM_END}
    for number, piece in enumerate(pieces):
        vocab["".join(letter[byte] for byte in piece.encode())] = FIRST_PIECE + number
    backend = tokenizers.Tokenizer(models.BPE(vocab, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return backend


def byte_text_model(
    pieces: Sequence[str] = (), *, max_context: int = 4096, template: str | None = CHATML
) -> TextModel:
    config = {"eos_token": "<|im_end|>", "chat_template": template}
    return TextModel.from_parts(
        "tiny/bytes",
        byte_backend(pieces),
        {key: value for key, value in config.items() if value is not None},
        {},
        {"max_position_embeddings": max_context, "architectures": ["TinyForCausalLM"]},
        created=1,
    )


@dataclass(frozen=True, slots=True)
class Failure:
    """In a script: the engine reports this error instead of a token."""

    message: str


Script = Sequence[int | Failure]


def text_script(text: str) -> list[int]:
    """The bytes of `text`, then the end of the turn."""
    return [*text.encode(), IM_END]


@dataclass
class ScriptedStats:
    active_rows: int = 0
    pending_rows: int = 0
    submitted_rows: int = 0
    steps: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    kv_bytes: int = 0
    kv_capacity_bytes: int = 0
    prefix_entries: int = 0
    prefix_bytes: int = 0
    prefix_max_bytes: int = 0
    prefix_hits: int = 0
    prefix_misses: int = 0
    prefix_scans: int = 0
    session_hits: int = 0
    session_misses: int = 0
    prefilling_rows: int = 0
    kv_projected_bytes: int = 0
    preemptions: int = 0


class ScriptedHandle:
    def __init__(self, num_choices: int) -> None:
        self.open = set(range(num_choices))
        self.cancelled = False
        self._done = False
        self._buffer: list[Event] = []
        self._news = asyncio.Event()

    def cancel(self) -> None:
        self.cancelled = True

    def stop(self, index: int) -> None:
        self.open.discard(index)

    async def next_batch(self) -> list[Event]:
        while not self._buffer and not self._done:
            self._news.clear()
            await self._news.wait()
        events, self._buffer = self._buffer, []
        return events

    def deliver(self, events: Sequence[Event], *, done: bool = False) -> None:
        self._buffer += events
        self._done = done
        self._news.set()


@dataclass
class ScriptedEngine:
    """Emits one script per choice, a token per step, whether anyone reads or not.

    `script` is a fixed list, or a function of the request and the choice that makes one. A script
    that runs out repeats from its start. As in the real engine: EOS ends a choice ("stop"), so does
    the token budget or a full context ("length").
    """

    script: Script | Callable[[GenerationRequest, int], Script]
    max_context: int = 4096
    max_rows: int = 8
    max_queued: int = 64
    step_s: float = 0.0
    tokens_per_step: int = 1  # delivered together
    prefill_s: float = 0.0
    counters: ScriptedStats = field(default_factory=ScriptedStats)
    requests: list[GenerationRequest] = field(default_factory=list)
    closed_sessions: list[str] = field(default_factory=list)
    disk: DiskStats | None = None
    flush_report: FlushReport = NOTHING_TO_FLUSH
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def stats(self) -> ScriptedStats:
        return self.counters

    def close_session(self, label: str) -> None:
        self.closed_sessions.append(label)

    def disk_stats(self) -> DiskStats | None:
        return self.disk

    def flush_cache(self, timeout_s: float) -> FlushReport:
        return self.flush_report

    def submit(self, request: GenerationRequest) -> ScriptedHandle:
        room = self.max_context - len(request.prompt_ids)
        if room < 1:
            raise ContextLengthExceeded(
                f"prompt is too long: {len(request.prompt_ids)} tokens, the context holds {self.max_context}"
            )
        if self.counters.pending_rows >= self.max_queued:
            raise QueueFull("too many requests are waiting")
        self.requests.append(request)
        self.counters.submitted_rows += request.n
        self.counters.pending_rows += request.n
        handle = ScriptedHandle(request.n)
        budget = room if request.max_tokens is None else min(room, request.max_tokens)
        task = asyncio.get_running_loop().create_task(self._run(request, handle, budget))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return handle

    async def _run(self, request: GenerationRequest, handle: ScriptedHandle, budget: int) -> None:
        while self.counters.active_rows + request.n > self.max_rows and not handle.cancelled:
            await asyncio.sleep(0.002)
        self.counters.pending_rows -= request.n
        self.counters.active_rows += request.n
        try:
            await asyncio.sleep(self.prefill_s)
            await self._generate(request, handle, budget)
        finally:
            self.counters.active_rows -= request.n

    async def _generate(self, request: GenerationRequest, handle: ScriptedHandle, budget: int) -> None:
        scripts = [
            self.script(request, index) if callable(self.script) else self.script
            for index in range(request.n)
        ]
        batch: list[Event] = [PromptEvent(len(request.prompt_ids), cached_tokens=0)]
        step = 0
        while handle.open and not handle.cancelled:
            await asyncio.sleep(self.step_s)
            self.counters.steps += 1
            for index in sorted(handle.open):
                item = scripts[index][step % len(scripts[index])]
                if isinstance(item, Failure):
                    handle.deliver([*batch, ErrorEvent(item.message)], done=True)
                    return
                self._emit(request, handle, batch, index, item, last=step + 1 == budget)
            step += 1
            if step % self.tokens_per_step == 0 or not handle.open:
                handle.deliver(batch, done=not handle.open)
                batch = []
        if handle.cancelled:
            batch += [FinishEvent(index, "cancelled") for index in sorted(handle.open)]
        handle.deliver(batch, done=True)

    def _emit(
        self,
        request: GenerationRequest,
        handle: ScriptedHandle,
        batch: list[Event],
        index: int,
        token_id: int,
        *,
        last: bool,
    ) -> None:
        self.counters.generated_tokens += 1
        is_eos = token_id in request.eos_ids
        wanted = request.sampling.logprobs
        top = tuple(Alternative((token_id + rank) % 256, -0.5 - rank) for rank in range(max(wanted, 0)))
        batch.append(TokenEvent(index, token_id, is_eos, -0.5 if wanted >= 0 else None, top))
        if is_eos or last:
            handle.open.discard(index)
            batch.append(FinishEvent(index, "stop" if is_eos else "length"))
