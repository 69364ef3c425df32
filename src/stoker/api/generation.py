"""One HTTP request's generation: prompts submitted, events turned into text updates per choice.

Every protocol shares this between its parsing and its writing. No JSON and no HTTP here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from stoker.api.engine_port import HandleLike
from stoker.api.merged_events import MergedEvents
from stoker.api.state import ApiState
from stoker.chat.calls import ToolCall, ToolCallDelta, join_deltas
from stoker.chat.reading import ReplyReading
from stoker.chat.reply import LogprobEntry, ReplyAssembler, ReplyDelta
from stoker.core import (
    Constraint,
    Event,
    FinishEvent,
    FinishReason,
    GenerationRequest,
    PromptEvent,
    SamplingParams,
    TokenEvent,
)
from stoker.errors import GenerationFailed, StokerError, Unavailable

ReplyEnd = FinishReason | Literal["tool_calls"]

# A conversation of more tokens is put together for `TextModel.remember_reply` on a worker.
_INLINE_TOKENS = 8192


@dataclass(frozen=True, slots=True)
class Order:
    """What a protocol asks for, already validated."""

    id: str
    prompts: tuple[tuple[int, ...], ...]  # token ids; each is continued `n` times
    sampling: SamplingParams
    max_tokens: int | None  # per choice
    ignore_eos: bool = False
    n: int = 1
    stops: tuple[str, ...] = ()
    session: str | None = None
    reading: ReplyReading | None = None  # None = all text is the answer
    thinking_budget: int | None = None  # tokens; then the thinking channel is closed for the model
    constraint: Constraint | None = None  # compiled already

    @property
    def num_choices(self) -> int:
        return len(self.prompts) * self.n

    @property
    def want_logprobs(self) -> bool:
        return self.sampling.logprobs >= 0


@dataclass(slots=True)  # not frozen: there is one for every token
class Update:
    """News of one choice. Either text, calls and logprobs, or, as its last one, a finish reason.

    Within one update the order is reasoning, text, tool calls.
    """

    index: int
    text: str = ""
    logprobs: Sequence[LogprobEntry] = ()
    finish_reason: ReplyEnd | None = None
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()
    stop_sequence: str | None = None  # beside the finish reason: the stop string that matched


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    lane: str


@dataclass(slots=True)
class _Choice:
    assembler: ReplyAssembler
    handle: int  # number of the handle whose events count
    token_ids: list[int] = field(default_factory=list)  # the reply so far
    finished: bool = False
    last_token_at: float = 0.0
    may_think: bool = True  # the thinking budget has not been enforced yet


class Generation:
    """A running order. Call `next_updates` to the end, or `cancel`; both free every row."""

    def __init__(self, state: ApiState, order: Order) -> None:
        """Submits every prompt. Raises StokerError with nothing left running."""
        self.order = order
        self._state = state
        self._choices = [
            _Choice(
                ReplyAssembler(
                    state.text.tokenizer,
                    stops=order.stops,
                    want_logprobs=order.want_logprobs,
                    reading=order.reading,
                ),
                handle=index // order.n,
            )
            for index in range(order.num_choices)
        ]
        self._cached_tokens = 0
        self._num_unfinished = order.num_choices
        self._started_at = time.monotonic()
        self._saw_token = False
        self._handles: list[HandleLike] = []
        self._first_choices: list[int] = []  # by handle: the choice that its event index 0 belongs to
        self._is_alone = len(order.prompts) == 1 and order.thinking_budget is None  # no second handle
        self._merged: MergedEvents | None = None
        try:
            for number, prompt in enumerate(order.prompts):
                self._handles.append(state.engine.submit(self._request(number, prompt)))
                self._first_choices.append(number * order.n)
        except BaseException:
            self.cancel()
            raise
        state.drain.enter(self)

    def _request(self, number: int, prompt: tuple[int, ...]) -> GenerationRequest:
        order = self.order
        # A text that is complete in its grammar ends, whatever else was asked for.
        ignore_eos = order.ignore_eos and order.constraint is None
        return GenerationRequest(
            id=order.id if len(order.prompts) == 1 else f"{order.id}/{number}",
            prompt_ids=prompt,
            sampling=order.sampling,
            max_tokens=order.max_tokens,
            eos_ids=frozenset() if ignore_eos else self._state.text.eos_ids,
            n=order.n,
            session=order.session,
            constraint=order.constraint,
        )

    @property
    def usage(self) -> Usage:
        return Usage(
            prompt_tokens=sum(len(prompt) for prompt in self.order.prompts),
            completion_tokens=sum(choice.assembler.num_tokens for choice in self._choices),
            cached_tokens=self._cached_tokens,
            lane=self._state.lane,
        )

    def num_reasoning_tokens(self, index: int) -> int:
        """Tokens of choice `index` that were thinking."""
        return self._choices[index].assembler.num_reasoning_tokens

    def cancel(self) -> None:
        """Frees the rows of every unfinished choice within one step; a reader of `next_updates`
        gets Unavailable at once. Idempotent."""
        self._state.drain.leave(self)
        if self._num_unfinished:
            for number, handle in enumerate(self._handles):
                handle.cancel()
                # The engine would say so too, but only after a step, which may be long.
                choices = range(self.order.n if number < len(self.order.prompts) else 1)
                handle.deliver([FinishEvent(index, "cancelled") for index in choices])
        elif self._merged is not None:
            self._merged.close()

    async def next_updates(self) -> list[Update]:
        """All updates that are ready, at least one. Empty when every choice has finished.

        Raises GenerationFailed when the engine reports an error, Unavailable when the server shut
        down in between.
        """
        number = 0  # of the prompt that the events belong to
        try:
            while True:
                if self._is_alone:
                    events = await self._handles[0].next_batch()
                else:
                    number, events = await self._merge().next_batch()
                if not events:
                    break
                if updates := self._digest(number, events):
                    return updates
        except BaseException:
            self.cancel()
            raise
        self.cancel()
        return []

    def _merge(self) -> MergedEvents:
        """Prompts interleaved as they come."""
        if self._merged is None:
            self._merged = MergedEvents()
            for number, handle in enumerate(self._handles):
                self._merged.add(number, handle)
        return self._merged

    def _digest(self, number: int, events: list[Event]) -> list[Update]:
        updates: list[Update] = []
        now = time.monotonic()
        num_tokens = 0
        for event in events:
            if isinstance(event, TokenEvent):
                num_tokens += 1
                self._take_token(number, event, now, updates)
            elif isinstance(event, FinishEvent):
                self._take_finish(number, event, updates)
            elif isinstance(event, PromptEvent):
                if number < len(self.order.prompts):  # else the prompt is an earlier one's continuation
                    self._take_prompt(event, now)
            else:
                raise GenerationFailed(event.message)
        self._state.metrics.tokens.num_tokens += num_tokens
        return updates

    def _take_token(self, number: int, event: TokenEvent, now: float, updates: list[Update]) -> None:
        index = self._first_choices[number] + event.index
        choice = self._choices[index]
        if choice.finished or choice.handle != number:
            return
        if choice.last_token_at:
            self._state.metrics.tokens.observe_gap(now - choice.last_token_at)
        elif not self._saw_token:
            self._saw_token = True
            self._state.metrics.first_token_s.observe(now - self._started_at)
        choice.last_token_at = now
        choice.token_ids.append(event.token_id)
        delta = choice.assembler.push(event)
        _append(updates, index, delta)
        if delta.stopped is not None or delta.complete:
            self._handles[number].stop(event.index)
            self._finish(index, "stop", updates)
        elif self.order.thinking_budget is not None and self._has_thought_enough(choice):
            self._end_thinking(number, event.index, index, updates)

    def _has_thought_enough(self, choice: _Choice) -> bool:
        budget, assembler = self.order.thinking_budget, choice.assembler
        if budget is None or not choice.may_think or not assembler.is_reasoning:
            return False
        return assembler.num_reasoning_tokens >= budget

    def _end_thinking(self, number: int, event_index: int, index: int, updates: list[Update]) -> None:
        """Closes the thinking channel for the model: its row ends, and a new one goes on behind the
        closing tag. The prefix cache has nearly all of that row's prompt. The tag is not billed."""
        order, choice, text = self.order, self._choices[index], self._state.text
        choice.may_think = False
        closing = choice.assembler.closing_text
        closing_ids = text.tokenizer.encode(closing, add_special=False)
        prompt = order.prompts[index // order.n] + tuple(choice.token_ids)
        request = replace(
            self._request(index // order.n, prompt),
            id=f"{order.id}/{index}/answer",
            prompt_ids=prompt + tuple(closing_ids),
            max_tokens=None if order.max_tokens is None else order.max_tokens - choice.assembler.num_tokens,
            n=1,
            constraint=order.constraint and replace(order.constraint, free_until=None, free_opener=None),
        )
        if self._merged is None or (request.max_tokens is not None and request.max_tokens < 1):
            return
        try:
            handle = self._state.engine.submit(request)
        except StokerError:
            return  # no place for a new row: the model thinks on
        self._handles[number].stop(event_index)
        self._handles.append(handle)
        self._first_choices.append(index)
        choice.handle = len(self._handles) - 1
        choice.token_ids += closing_ids
        self._merged.add(len(self._handles) - 1, handle)
        _append(updates, index, choice.assembler.insert(closing))

    def _take_finish(self, number: int, event: FinishEvent, updates: list[Update]) -> None:
        index = self._first_choices[number] + event.index
        choice = self._choices[index]
        if choice.finished or choice.handle != number:
            return
        if event.reason == "cancelled":  # not by the client: then nobody would be reading
            raise Unavailable("the server is shutting down")
        delta = choice.assembler.finish(event.reason)
        _append(updates, index, delta)
        if delta.stopped is None:
            self._remember(self.order.prompts[index // self.order.n], choice.token_ids)
        self._finish(index, "stop" if delta.stopped is not None else event.reason, updates)

    def _finish(self, index: int, reason: FinishReason, updates: list[Update]) -> None:
        choice = self._choices[index]
        choice.finished = True
        self._num_unfinished -= 1
        stopped = choice.assembler.stopped
        # A call that the token budget cut short is reported as cut: its arguments are not whole.
        called = choice.assembler.num_calls > 0 and not (reason == "length" and choice.assembler.call_is_cut)
        updates.append(Update(index, finish_reason="tool_calls" if called else reason, stop_sequence=stopped))

    def _remember(self, prompt: tuple[int, ...], reply: list[int]) -> None:
        """For the conversation's next prompt; on a worker where it would hold up the event loop."""
        text = self._state.text
        if len(prompt) + len(reply) <= _INLINE_TOKENS:
            text.remember_reply(prompt, reply)
        else:
            self._state.workers.submit(text.remember_reply, prompt, reply)

    def _take_prompt(self, event: PromptEvent, now: float) -> None:
        metrics = self._state.metrics
        self._cached_tokens += event.cached_tokens
        metrics.prompt_tokens.inc(event.prompt_tokens)
        metrics.cached_tokens.inc(event.cached_tokens)
        metrics.prompt_wait_s.observe(now - self._started_at)


def _append(updates: list[Update], index: int, delta: ReplyDelta) -> None:
    if delta.text or delta.logprobs or delta.reasoning or delta.tool_calls:
        updates.append(Update(index, delta.text, delta.logprobs, None, delta.reasoning, delta.tool_calls))


@dataclass(slots=True)
class Reply:
    """One finished choice."""

    text: str
    logprobs: list[LogprobEntry]
    finish_reason: ReplyEnd
    reasoning: str = ""  # "" = none
    tool_calls: tuple[ToolCall, ...] = ()
    num_reasoning_tokens: int = 0
    stop_sequence: str | None = None  # the stop string that ended it


async def collect(generation: Generation) -> list[Reply]:
    """Runs a generation to its end; the choices in order."""
    updates_of: list[list[Update]] = [[] for _ in range(generation.order.num_choices)]
    while updates := await generation.next_updates():
        for update in updates:
            updates_of[update.index].append(update)
    return [
        _join(of_choice, generation.num_reasoning_tokens(index)) for index, of_choice in enumerate(updates_of)
    ]


def _join(updates: list[Update], num_reasoning_tokens: int) -> Reply:
    return Reply(
        text="".join(update.text for update in updates),
        logprobs=[entry for update in updates for entry in update.logprobs],
        finish_reason=updates[-1].finish_reason or "stop",
        reasoning="".join(update.reasoning for update in updates),
        tool_calls=join_deltas([delta for update in updates for delta in update.tool_calls]),
        num_reasoning_tokens=num_reasoning_tokens,
        stop_sequence=updates[-1].stop_sequence,
    )
