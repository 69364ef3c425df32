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
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import torch

from stoker.cache import PrefixIndex, PromptCache
from stoker.cache.disk import NOTHING_TO_FLUSH, DiskStats, DiskTier, FlushReport
from stoker.cache.disk.restore import Ticket
from stoker.core import (
    ErrorEvent,
    Event,
    FinishEvent,
    FinishReason,
    GenerationRequest,
    PromptEvent,
    TokenEvent,
)
from stoker.engine.checkpoints import Checkpoints
from stoker.engine.executor import Executor
from stoker.engine.grammar import GrammarCompiler, RowMatcher
from stoker.engine.handle import GenerationHandle
from stoker.engine.loans import Loan, Loans, once
from stoker.engine.pacing import PrefillPacer
from stoker.engine.row import Row
from stoker.engine.sampling import RowFailure, Sampled, SamplerRow
from stoker.engine.scheduler import Scheduled, Scheduler, blocks_for
from stoker.engine.types import EngineConfig, EngineStats, MeasuredKV
from stoker.errors import ContextLengthExceeded, GrammarError, OverBudget, QueueFull, Unavailable
from stoker.kv.blocks import BLOCK_SIZE
from stoker.kv.transfer import BlockTransfer
from stoker.models.base import CausalLM

log = logging.getLogger(__name__)
T = TypeVar("T")

IDLE_SLICE_S = 0.05  # of shared work when no row runs: how long a new request may have to wait for it


class Engine:
    """Continuous batching over one model. `submit`, `run_exclusive`, `share`, `stats` and `close` are
    thread-safe."""

    def __init__(
        self,
        model: CausalLM,
        kv: MeasuredKV,
        config: EngineConfig | None = None,
        *,
        grammars: GrammarCompiler | None = None,
    ) -> None:
        self.config = config or EngineConfig()
        context = min(self.config.max_context or model.facts.max_context, model.facts.max_context)
        self.max_context = min(context, kv.capacity_tokens)
        self._kv = kv
        self._grammars = grammars
        max_blocks = self.config.prefix_cache_bytes // kv.bytes_per_block
        index = PrefixIndex(
            kv.pool, block_size=BLOCK_SIZE, max_blocks=max_blocks, retention=self.config.cache_retention
        )
        self._prefixes = PromptCache(index, use_sessions=self.config.use_sessions)
        budget_bytes = self.config.kv_budget_bytes
        self._budget_blocks = None if budget_bytes is None else budget_bytes // kv.bytes_per_block
        self._executor = Executor(model, kv)
        self._pacer = PrefillPacer(largest=self.config.busy_chunk)
        self._scheduler = Scheduler(
            kv,
            max_rows=self.config.max_rows,
            prefill_chunk=self.config.prefill_chunk,
            pacer=self._pacer if self.config.paces_prompts else None,
            budget_blocks=self._budget_blocks,
            prefixes=self._prefixes if max_blocks else None,
            on_admit=self._on_admit,
        )
        self._disk: DiskTier | None = None
        if self.config.disk is not None and max_blocks:
            self._disk = DiskTier(
                self.config.disk,
                kv.pool,
                index,
                BlockTransfer(kv),
                post=self._post_from_outside,
                busy=lambda: bool(self._scheduler.running),
            )
        self._checkpoints: Checkpoints | None = None
        if self._disk is not None and self.config.checkpoint_tokens:
            self._checkpoints = Checkpoints(self._disk, self.config.checkpoint_tokens)
        # Shared with callers, under _changed: messages for the engine thread, and the queue's length.
        self._changed = threading.Condition()
        self._inbox: list[Callable[[], None]] = []
        self._num_queued = 0
        self._closing = False
        self._stopped = False
        # The engine thread's own.
        self._rows: dict[GenerationHandle, list[Row]] = {}
        self._outbox: list[tuple[GenerationHandle, list[Event]]] = []
        self._staged: dict[GenerationHandle, Ticket] = {}  # they wait for their prompt to come from disk
        self._loans = Loans()
        self._prefix_hits = self._prefix_misses = self._prefix_scans = 0
        self._session_hits = self._session_misses = 0
        self._submitted_rows = self._steps = self._prompt_tokens = self._generated_tokens = 0
        self._thread = threading.Thread(target=self._run, name="stoker-engine", daemon=True)

    def start(self) -> None:
        self._thread.start()
        if self._disk is not None:
            self._disk.start()

    def submit(self, request: GenerationRequest) -> GenerationHandle:
        """Queues a request and returns at once.

        Raises ContextLengthExceeded when the prompt leaves no room for a token, OverBudget when a
        choice may come to need more than the whole KV budget, GrammarError when the constraint cannot
        be compiled, QueueFull when `max_queued` requests wait already, Unavailable when the engine is
        closing. Nothing is queued then.
        """
        num_prompt = len(request.prompt_ids)
        if num_prompt >= self.max_context:
            raise self._too_long(num_prompt)
        handle = GenerationHandle(
            request.id, request.n, request_stop=self._request_stop, request_cancel=self._request_cancel
        )
        room = self.max_context - num_prompt
        max_tokens = room if request.max_tokens is None else min(request.max_tokens, room)
        if self._budget_blocks is not None and blocks_for(num_prompt + max_tokens) > self._budget_blocks:
            raise self._over_budget(num_prompt, max_tokens, self._budget_blocks * BLOCK_SIZE)
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
                session=request.session,
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
        self._lend(once(work, future, alone=True))
        return future

    def run_between(self, work: Callable[[], T]) -> Future[T]:
        """Runs `work` on the engine thread between two steps: rows stay where they are and go on after it.
        Cancelling the future while it waits takes the work back."""
        future: Future[T] = Future()
        self._lend(once(work, future))
        return future

    def share(self, work: Callable[[float], bool]) -> None:
        """Work that needs the processor beside the rows: `work(seconds)` is called between steps, on
        the engine thread, until it returns True. While rows run it is given as long as their last
        step took, so that neither waits for the other's end."""
        self._post_from_outside(lambda: self._loans.add(Loan(work)))

    def _lend(self, loan: Loan) -> None:
        with self._changed:
            if self._closing:
                raise Unavailable("the server is shutting down")
            self._post(lambda: self._loans.add(loan))

    def close_session(self, label: str) -> None:
        """Forgets what the session published last; requests under way no longer count as its own.
        A later request starts a new association."""
        with self._changed:
            self._post(lambda: self._close_session(label))

    def stats(self) -> EngineStats:
        running = list(self._scheduler.running)
        return EngineStats(
            active_rows=len(running),
            pending_rows=len(self._scheduler.waiting) + len(self._staged),
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
            prefix_scans=self._prefix_scans,
            session_hits=self._session_hits,
            session_misses=self._session_misses,
            prefilling_rows=sum(not row.num_generated for row in running),
            kv_projected_bytes=self._scheduler.projected_blocks * self._kv.bytes_per_block,
        )

    def disk_stats(self) -> DiskStats | None:
        """None without a disk tier."""
        return self._disk.stats() if self._disk is not None else None

    def flush_cache(self, timeout_s: float) -> FlushReport:
        """Waits until everything published so far is on disk."""
        return self._disk.flush(timeout_s) if self._disk is not None else NOTHING_TO_FLUSH

    def close(self, timeout_s: float = 0.0, *, flush_timeout_s: float = 0.0) -> None:
        """Refuses new work, lets active requests finish for up to `timeout_s` seconds, cancels the
        rest, ends the thread and takes up to `flush_timeout_s` to write what is not on disk yet."""
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
        if self._disk is not None:
            self._disk.close(flush_timeout_s)

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
            message += ", or give the server more memory"
        return ContextLengthExceeded(message)

    def _over_budget(self, num_prompt: int, max_tokens: int, budget: int) -> OverBudget:
        return OverBudget(
            f"the request may come to hold {num_prompt + max_tokens} tokens ({num_prompt} of prompt, "
            f"{max_tokens} of reply), and the server's KV budget is {budget} tokens; "
            f"lower max_tokens, shorten the prompt, or raise the budget (--kv-budget)"
        )

    # Messages to the engine thread.

    def _post(self, message: Callable[[], None]) -> None:
        """Under _changed."""
        self._inbox.append(message)
        self._changed.notify()

    def _post_from_outside(self, message: Callable[[], None]) -> None:
        with self._changed:
            self._post(message)

    def _request_stop(self, handle: GenerationHandle, index: int) -> None:
        with self._changed:
            self._post(lambda: self._stop(handle, index))

    def _request_cancel(self, handle: GenerationHandle) -> None:
        with self._changed:
            self._post(lambda: self._cancel(handle))

    # Everything below runs on the engine thread.

    @torch.inference_mode()
    def _run(self) -> None:
        while self._take_messages():
            try:
                self._turn()
            except Exception as error:
                log.exception("engine step failed")
                self._fail_all(error)
        for handle in list(self._rows):
            self._cancel(handle)
        self._loans.abandon()

    def _take_messages(self) -> bool:
        """Waits until there is something to do. False when the thread should end."""
        if not self._has_work():
            self._deliver()
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._inbox or self._stopped or (self._closing and not self._staged) or self._has_work()
                )
            )
            messages, self._inbox = self._inbox, []
        for message in messages:
            message()
        return not self._stopped and bool(self._has_work() or self._staged or not self._closing)

    def _has_work(self) -> bool:
        return bool(self._scheduler.running or self._scheduler.waiting or self._loans)

    def _turn(self) -> None:
        """Schedule, run, account for the result; then a piece of somebody else's work."""
        began = time.monotonic()
        step = self._scheduler.schedule(admit=self._loans.admits_rows)
        if step:
            batch = self._executor.prepare(step)
            self._deliver()
            results = self._executor.run(step, batch)
            self._steps += 1
            num_prompts = self._scheduler.num_prompts
            self._account(step, results)
            self._pacer.after_step(
                time.monotonic() - began,
                num_decoding=sum(item.num_tokens == 1 for item in step),
                num_prompts=num_prompts,
                num_prompt_tokens=sum(item.num_tokens for item in step if item.num_tokens > 1),
            )
        rows_are_running = bool(self._scheduler.running)
        due = self._loans.due(rows_are_running=rows_are_running)
        if due or not step:
            self._deliver()
        if due:
            seconds = time.monotonic() - began if step else IDLE_SLICE_S
            self._loans.run_piece(seconds, rows_are_running=rows_are_running)

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
            if self._prefixes.max_blocks:
                self._count_look_up(row)
            outbox += [TokenEvent(row.index, told_again) for told_again in row.untold]
            row.untold.clear()
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
            self._end(row, succeeded=True)
        elif self._checkpoints is not None:
            self._checkpoints.after_token(row)

    def _add(self, handle: GenerationHandle, rows: list[Row]) -> None:
        self._rows[handle] = rows
        self._submitted_rows += len(rows)
        if self._checkpoints is not None:
            self._checkpoints.begin(rows[0])
        if self._disk is not None and not rows[0].request.namespace:
            ticket = self._disk.stage(rows[0].tokens[:-1], lambda: self._unstage(handle))
            if ticket is not None:
                self._staged[handle] = ticket
                return
        for row in rows:
            self._scheduler.add(row)

    def _unstage(self, handle: GenerationHandle) -> None:
        """What disk knows of the request's prompt is in the prefix cache now."""
        del self._staged[handle]
        for row in self._rows[handle]:
            self._scheduler.add(row)

    def _on_admit(self, row: Row) -> None:
        if row.index == 0:
            self._leave_queue()

    def _count_look_up(self, row: Row) -> None:
        self._prefix_hits += row.num_cached > 0
        self._prefix_misses += row.num_cached == 0
        self._prefix_scans += not row.from_session
        if row.session is not None and self._prefixes.use_sessions:
            self._session_hits += row.from_session
            self._session_misses += not row.from_session

    def _close_session(self, label: str) -> None:
        self._prefixes.close_session(label)
        for rows in self._rows.values():
            for row in rows:
                if row.session == label:
                    row.session = None

    def _leave_queue(self) -> None:
        with self._changed:
            self._num_queued -= 1

    def _stop(self, handle: GenerationHandle, index: int) -> None:
        for row in self._rows.get(handle, ()):
            if row.index == index:
                self._end(row, succeeded=True)
                break

    def _cancel(self, handle: GenerationHandle) -> None:
        self._deliver()
        rows = self._rows.get(handle, ())
        reason: FinishReason = "cancelled"
        events = [FinishEvent(row.index, reason) for row in rows]
        self._drop(handle)
        handle.deliver(events)

    def _end(self, row: Row, *, publish: bool = True, succeeded: bool = False) -> None:
        """One choice is over. `publish` is False when what it computed may be damaged; `succeeded` when
        all was said that was wanted."""
        if self._checkpoints is not None:
            self._checkpoints.end(row, succeeded=succeeded)
        if row.index == 0 and not row.admitted:
            self._leave_queue()
        self._scheduler.remove(row, publish=publish)
        rows = self._rows[row.handle]
        self._rows[row.handle] = [other for other in rows if other is not row]
        if not self._rows[row.handle]:
            del self._rows[row.handle]
            if (ticket := self._staged.pop(row.handle, None)) is not None:
                ticket.cancel()

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


def _completes_grammar(row: Row, token_id: int) -> bool:
    """Takes the token into the row's grammar; whether nothing can follow it there."""
    if row.matcher is None:
        return False
    row.matcher.accept(token_id)
    return bool(row.matcher.is_complete)
