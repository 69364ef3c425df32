"""The engine: one thread that owns the model and everything on the device.

Callers hand in requests from any thread and read events from a handle; nothing else crosses.
Each turn of the loop takes what has come in, then schedules, runs and accounts for one step, so
requests join and leave between steps.

    engine = Engine(model, PagedKV(model.facts.layers, num_blocks=256), EngineConfig())
    engine.start()
    request = GenerationRequest(id="r1", prompt_ids=(1, 2, 3), max_tokens=16)
    for events in engine.submit(request).batches_blocking():
        print(events)
    engine.close()
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch

from stoker.cache import PrefixIndex
from stoker.core import (
    ErrorEvent,
    Event,
    FinishEvent,
    FinishReason,
    GenerationRequest,
    PromptEvent,
    TokenEvent,
)
from stoker.engine.executor import Executor
from stoker.engine.grammar import GrammarCompiler, RowMatcher
from stoker.engine.handle import GenerationHandle
from stoker.engine.row import Row
from stoker.engine.sampling import RowFailure, Sampled, SamplerRow
from stoker.engine.scheduler import Scheduled, Scheduler
from stoker.errors import ContextLengthExceeded, GrammarError, QueueFull, Unavailable
from stoker.kv.base import KVLayout
from stoker.kv.blocks import BLOCK_SIZE, BlockPool
from stoker.models.base import CausalLM

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    max_rows: int = 8  # rows in one step
    max_queued: int = 64  # requests that may wait for a row; one more is refused
    prefill_chunk: int = 256  # prompt tokens per step, all prefilling rows together
    busy_chunk: int = 64  # the same while other rows decode (more when more rows do)
    prefix_cache_bytes: int = 0  # keys and values kept for requests that begin alike; 0 = none
    max_context: int | None = None  # tokens a row may hold; None = what the model was made for
    newline_ids: frozenset[int] = frozenset()  # tokens XTC must not remove


@dataclass(frozen=True, slots=True)
class EngineStats:
    """A snapshot; counters are cumulative since the start."""

    active_rows: int  # decoding or prefilling now
    pending_rows: int  # waiting for a place
    submitted_rows: int
    steps: int
    prompt_tokens: int  # computed in prefill
    generated_tokens: int
    preemptions: int
    kv_bytes: int  # held by rows and the prefix cache
    kv_capacity_bytes: int
    prefix_entries: int = 0  # blocks the prefix cache holds
    prefix_bytes: int = 0
    prefix_max_bytes: int = 0
    prefix_hits: int = 0  # requests that found some of their prompt there
    prefix_misses: int = 0


class MeasuredKV(KVLayout, Protocol):
    """What the engine needs of its KV beyond the layout contract: its size."""

    @property
    def capacity_tokens(self) -> int: ...
    @property
    def capacity_bytes(self) -> int: ...
    @property
    def used_bytes(self) -> int: ...
    @property
    def bytes_per_block(self) -> int: ...
    @property
    def pool(self) -> BlockPool: ...


class Engine:
    """Continuous batching over one model. `submit`, `run_exclusive`, `stats` and `close` are
    thread-safe."""

    def __init__(
        self,
        model: CausalLM,
        kv: MeasuredKV,
        config: EngineConfig | None = None,
        *,
        device: torch.device | str = "cpu",
        grammars: GrammarCompiler | None = None,
    ) -> None:
        self.config = config or EngineConfig()
        context = min(self.config.max_context or model.facts.max_context, model.facts.max_context)
        self.max_context = min(context, kv.capacity_tokens)
        self._kv = kv
        self._grammars = grammars
        max_blocks = self.config.prefix_cache_bytes // kv.bytes_per_block
        self._prefixes = PrefixIndex(kv.pool, block_size=BLOCK_SIZE, max_blocks=max_blocks)
        self._executor = Executor(model, kv, torch.device(device))
        self._scheduler = Scheduler(
            kv,
            max_rows=self.config.max_rows,
            prefill_chunk=self.config.prefill_chunk,
            busy_chunk=self.config.busy_chunk,
            prefixes=self._prefixes if max_blocks else None,
            on_admit=self._on_admit,
        )
        # Shared with callers, under _changed: messages for the engine thread, and the queue's length.
        self._changed = threading.Condition()
        self._inbox: list[Callable[[], None]] = []
        self._num_queued = 0
        self._closing = False
        self._stopped = False
        # The engine thread's own.
        self._rows: dict[GenerationHandle, list[Row]] = {}
        self._outbox: list[tuple[GenerationHandle, list[Event]]] = []
        self._exclusive: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._prefix_hits = self._prefix_misses = 0
        self._submitted_rows = self._steps = self._prompt_tokens = self._generated_tokens = 0
        self._thread = threading.Thread(target=self._run, name="stoker-engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, request: GenerationRequest) -> GenerationHandle:
        """Queues a request and returns at once.

        Raises ContextLengthExceeded when the prompt leaves no room for a token, GrammarError when
        the constraint cannot be compiled, QueueFull when `max_queued` requests wait already,
        Unavailable when the engine is closing. Nothing is queued then.
        """
        num_prompt = len(request.prompt_ids)
        if num_prompt >= self.max_context:
            raise self._too_long(num_prompt)
        handle = GenerationHandle(
            request.id, request.n, request_stop=self._request_stop, request_cancel=self._request_cancel
        )
        room = self.max_context - num_prompt
        max_tokens = room if request.max_tokens is None else min(request.max_tokens, room)
        rows = [
            Row(
                request=request,
                index=index,
                handle=handle,
                sampler=SamplerRow(
                    request.sampling,
                    request.prompt_ids,
                    request.eos_ids,
                    self.config.newline_ids,
                    index,
                ),
                tokens=list(request.prompt_ids),
                max_tokens=max_tokens,
                matcher=self._matcher(request),
            )
            for index in range(request.n)
        ]
        leader, *siblings = rows
        leader.siblings = siblings
        for sibling in siblings:
            sibling.leader = leader
        with self._changed:
            if self._closing:
                raise Unavailable("the server is shutting down")
            # Those that will find a free place when the engine next looks are not waiting.
            places = max(0, self.config.max_rows - len(self._scheduler.running))
            if self._num_queued >= self.config.max_queued + places:
                raise QueueFull(f"{self._num_queued} requests are already waiting; try again later")
            self._num_queued += 1
            self._post(lambda: self._add(handle, rows))
        return handle

    def run_exclusive(self, work: Callable[[], T]) -> Future[T]:
        """Runs `work` on the engine thread while no row is active. Running rows finish first and
        none is admitted meanwhile. The future carries its result or exception."""
        future: Future[T] = Future()
        with self._changed:
            if self._closing:
                raise Unavailable("the server is shutting down")
            self._post(lambda: self._exclusive.append((work, future)))
        return future

    def stats(self) -> EngineStats:
        return EngineStats(
            active_rows=len(self._scheduler.running),
            pending_rows=len(self._scheduler.waiting),
            submitted_rows=self._submitted_rows,
            steps=self._steps,
            prompt_tokens=self._prompt_tokens,
            generated_tokens=self._generated_tokens,
            preemptions=self._scheduler.num_preemptions,
            kv_bytes=self._kv.used_bytes,
            kv_capacity_bytes=self._kv.capacity_bytes,
            prefix_entries=len(self._prefixes),
            prefix_bytes=len(self._prefixes) * self._kv.bytes_per_block,
            prefix_max_bytes=self._prefixes.max_blocks * self._kv.bytes_per_block,
            prefix_hits=self._prefix_hits,
            prefix_misses=self._prefix_misses,
        )

    def close(self, timeout_s: float = 0.0) -> None:
        """Refuses new work, lets active requests finish for up to `timeout_s` seconds, cancels the
        rest and ends the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if not self._thread.is_alive():
            return
        self._thread.join(timeout_s)
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _matcher(self, request: GenerationRequest) -> RowMatcher | None:
        if request.constraint is None:
            return None
        if self._grammars is None:
            raise GrammarError("grammars are switched off")
        return self._grammars.matcher(request.constraint, request.eos_ids)

    def _too_long(self, num_prompt: int) -> ContextLengthExceeded:
        message = (
            f"prompt is too long: it has {num_prompt} tokens, and the context of {self.max_context} tokens "
            f"must also hold at least one generated token; shorten it"
        )
        if self.max_context == self.config.max_context:
            return ContextLengthExceeded(
                f"{message}, or raise the server's context limit",
                type="memory_admission",
                code="context_over_budget",
            )
        if self.max_context == self._kv.capacity_tokens:
            message += ", or give the server more memory (--kv-budget)"
        return ContextLengthExceeded(message)

    # Messages to the engine thread.

    def _post(self, message: Callable[[], None]) -> None:
        """Under _changed."""
        self._inbox.append(message)
        self._changed.notify()

    def _request_stop(self, handle: GenerationHandle, index: int) -> None:
        with self._changed:
            self._post(lambda: self._stop(handle, index))

    def _request_cancel(self, handle: GenerationHandle) -> None:
        with self._changed:
            self._post(lambda: self._cancel(handle))

    # Everything below runs on the engine thread.

    def _run(self) -> None:
        while self._take_messages():
            try:
                self._turn()
            except Exception as error:
                log.exception("engine step failed")
                self._fail_all(error)
        for handle in list(self._rows):
            self._cancel(handle)
        for _, future in self._exclusive:
            future.cancel()

    def _take_messages(self) -> bool:
        """Waits until there is something to do. False when the thread should end."""
        if not self._has_work():
            self._deliver()
        with self._changed:
            self._changed.wait_for(lambda: self._inbox or self._stopped or self._closing or self._has_work())
            messages, self._inbox = self._inbox, []
        for message in messages:
            message()
        return not self._stopped and (self._has_work() or not self._closing)

    def _has_work(self) -> bool:
        return bool(self._rows or self._exclusive)

    def _turn(self) -> None:
        """Schedule, run, account for the result."""
        if self._exclusive and not self._scheduler.running:
            self._run_one_exclusive()
        step = self._scheduler.schedule(admit=not self._exclusive)
        if not step:
            self._deliver()
            return
        batch = self._executor.prepare(step)
        self._deliver()
        results = self._executor.run(step, batch)
        self._steps += 1
        self._account(step, results)

    def _account(self, step: list[Scheduled], results: list[Sampled | RowFailure | None]) -> None:
        events: dict[GenerationHandle, list[Event]] = {}
        for item, result in zip(step, results, strict=True):
            row = item.row
            self._scheduler.account(item)
            if not row.num_generated:
                self._prompt_tokens += item.num_tokens
            if row.handle not in self._rows or result is None:
                continue  # its request failed a moment ago, or its prompt is not complete yet
            outbox = events.setdefault(row.handle, [])
            if row.matcher is not None and row.matcher.failure:
                result = RowFailure(f"the grammar cannot be followed further: {row.matcher.failure}")
            if isinstance(result, RowFailure):
                outbox.append(ErrorEvent(result.message))
                self._drop(row.handle, publish=False)
            else:
                self._append(row, result, outbox)
        self._outbox += events.items()
        if any(isinstance(batch[0], PromptEvent) for batch in events.values()):
            self._deliver()  # somebody waits for a first token

    def _deliver(self) -> None:
        """Hands over what the last step produced. Done just before the model runs again: its
        readers' Python then runs while the model does, instead of delaying it."""
        for handle, batch in self._outbox:
            handle.deliver(batch)
        self._outbox.clear()

    def _append(self, row: Row, sampled: Sampled, outbox: list[Event]) -> None:
        if not row.handle.prompt_reported:
            row.handle.prompt_reported = True
            outbox.append(PromptEvent(row.num_prompt, row.num_cached))
        token_id = sampled.token_id
        is_eos = token_id in row.request.eos_ids
        row.tokens.append(token_id)
        row.sampler.accept(token_id)
        row.num_generated += 1
        self._generated_tokens += 1
        outbox.append(TokenEvent(row.index, token_id, is_eos, sampled.logprob, sampled.top))
        is_over = is_eos or _completes_grammar(row, token_id)
        if is_over or row.num_generated >= row.max_tokens:
            outbox.append(FinishEvent(row.index, "stop" if is_over else "length"))
            self._end(row)

    def _add(self, handle: GenerationHandle, rows: list[Row]) -> None:
        self._rows[handle] = rows
        self._submitted_rows += len(rows)
        for row in rows:
            self._scheduler.add(row)

    def _on_admit(self, row: Row) -> None:
        if row.index == 0:
            self._leave_queue()
            if self._prefixes.max_blocks:
                self._prefix_hits += row.num_cached > 0
                self._prefix_misses += row.num_cached == 0

    def _leave_queue(self) -> None:
        with self._changed:
            self._num_queued -= 1

    def _stop(self, handle: GenerationHandle, index: int) -> None:
        for row in self._rows.get(handle, ()):
            if row.index == index:
                self._end(row)
                break

    def _cancel(self, handle: GenerationHandle) -> None:
        self._deliver()
        rows = self._rows.get(handle, ())
        reason: FinishReason = "cancelled"
        events = [FinishEvent(row.index, reason) for row in rows]
        self._drop(handle)
        handle.deliver(events)

    def _end(self, row: Row, *, publish: bool = True) -> None:
        """One choice is over. `publish` is False when what it computed may be damaged."""
        if row.index == 0 and not row.admitted:
            self._leave_queue()
        self._scheduler.remove(row, publish=publish)
        rows = self._rows[row.handle]
        self._rows[row.handle] = [other for other in rows if other is not row]
        if not self._rows[row.handle]:
            del self._rows[row.handle]

    def _drop(self, handle: GenerationHandle, *, publish: bool = True) -> None:
        for row in list(self._rows.get(handle, ())):
            self._end(row, publish=publish)

    def _fail_all(self, error: Exception) -> None:
        """The step went wrong: every request that was running ends with the error."""
        self._deliver()
        message = f"generation failed: {error or type(error).__name__}"
        for handle in {row.handle for row in self._scheduler.running}:
            self._drop(handle, publish=False)
            handle.deliver([ErrorEvent(message)])

    def _run_one_exclusive(self) -> None:
        work, future = self._exclusive.popleft()
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)


def _completes_grammar(row: Row, token_id: int) -> bool:
    """Takes the token into the row's grammar; whether nothing can follow it there."""
    if row.matcher is None:
        return False
    row.matcher.accept(token_id)
    return bool(row.matcher.is_complete)
