"""One choice's token events to text, stop strings and logprob entries.

Sits between the engine (ids) and a protocol (JSON): bytes -> characters -> reasoning or answer ->
stop strings, each stage holding back what it cannot decide yet. Tool calls are not parsed here.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from stoker.chat.calls import ToolCallDelta
from stoker.chat.detokenizer import Detokenizer
from stoker.chat.reading import ReplyReading
from stoker.chat.reasoning import TAGS, ReasoningSplitter, Segment
from stoker.chat.stops import StopMatcher
from stoker.chat.tokenizer import Tokenizer
from stoker.core import Alternative, FinishReason, TokenEvent

LOWEST_LOGPROB = -9999.0  # JSON has no infinity; this is what OpenAI sends for "practically never"


@dataclass(frozen=True, slots=True)
class TopLogprob:
    """One candidate at a position."""

    id: int
    token: str
    logprob: float
    bytes: list[int] | None


@dataclass(frozen=True, slots=True)
class LogprobEntry:
    """The sampled token of one position, and the candidates asked for, most likely first.

    `token` is printable text; the exact bytes, perhaps only a part of a character, are in `bytes`.
    """

    id: int
    token: str
    logprob: float
    bytes: list[int] | None
    top_logprobs: list[TopLogprob]


@dataclass(frozen=True, slots=True)
class ReplyDelta:
    """What one event adds to a reply."""

    text: str = ""
    logprobs: list[LogprobEntry] = field(default_factory=list)
    stopped: str | None = None  # the stop string that matched; nothing follows
    reasoning: str = ""  # what the model thought, not part of `text`
    tool_calls: tuple[ToolCallDelta, ...] = ()
    complete: bool = False  # the reply is whole, whatever the engine would add


@dataclass(frozen=True, slots=True)
class _Held:
    """An entry whose text is not out yet. Positions count characters from the reply's start."""

    entry: LogprobEntry
    start: int  # first character the token has a byte of
    end: int  # behind the last one


class ReplyAssembler:
    """Call `push` for each TokenEvent of one choice, `finish` once at its end.

    Stop strings are looked for in the answer only, not in the reasoning. After one matched,
    further tokens add nothing and are not counted.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        stops: Iterable[str] = (),
        want_logprobs: bool = False,
        splitter: ReasoningSplitter | None = None,
        reading: ReplyReading | None = None,
    ) -> None:
        del reading  # tool calls and other channels: next commit
        self._tokenizer = tokenizer
        self._want_logprobs = want_logprobs
        self._detokenizer = Detokenizer()
        self._splitter = splitter
        self._matcher = StopMatcher(stops)
        self._num_decoded = 0  # characters out of the detokenizer, tags included
        self._content_end = 0  # of those, up to the last answer text given to the matcher
        self._held: deque[_Held] = deque()
        self._finished = False
        self.num_tokens = 0  # completion tokens to bill: the stopping EOS counts
        self.num_reasoning_tokens = 0  # of those, tokens of the thinking channel
        self.num_calls = 0
        self.call_is_cut = False  # the last call has no end

    @property
    def stopped(self) -> str | None:
        """The stop string that ended the reply, if one did."""
        return self._matcher.matched

    def push(self, event: TokenEvent) -> ReplyDelta:
        """Text and entries that are certain now. EOS and other special tokens have neither."""
        if self._finished or self.stopped is not None:
            return ReplyDelta(stopped=self.stopped)
        self.num_tokens += 1
        if event.is_eos or self._is_hidden(event.token_id):
            return ReplyDelta()
        data = self._tokenizer.token_bytes(event.token_id)
        start = self._num_decoded
        text = self._detokenizer.feed(data)
        self._num_decoded += len(text)
        if self._want_logprobs and data and event.logprob is not None:
            end = self._num_decoded + (self._detokenizer.num_held_bytes > 0)
            self._held.append(_Held(self._entry(event, event.logprob), start, end))
        if self._splitter is None:
            return self._release([Segment(False, text, self._num_decoded)])
        return self._release(self._splitter.feed(text))

    def finish(self, reason: FinishReason) -> ReplyDelta:
        """The tail that was held back. `reason` is the engine's; a match found only now shows as
        `stopped` and wins over it."""
        if self._finished or self.stopped is not None:
            return ReplyDelta(stopped=self.stopped)
        self._finished = True
        return self._release(self._splitter.finish() if self._splitter else [])

    def _is_hidden(self, token_id: int) -> bool:
        """Special tokens are no text, except where they are the tags of the thinking channel."""
        if token_id not in self._tokenizer.special_ids:
            return False
        return self._splitter is None or self._tokenizer.token_text(token_id) not in TAGS

    def _release(self, segments: list[Segment]) -> ReplyDelta:
        """Matches stops in `segments` and gives out all that is certain, with its entries."""
        reasoning: list[str] = []
        content: list[str] = []
        for segment in segments:
            if segment.is_reasoning:
                # A stop does not reach across a thinking block.
                content.append(self._matcher.finish()[0])
            else:
                content.append(self._matcher.feed(segment.text)[0])
                self._content_end = segment.end
            if self.stopped is not None:
                break
            if segment.is_reasoning:
                reasoning.append(segment.text)
        if self._finished and self.stopped is None:
            content.append(self._matcher.finish()[0])
        entries = self._entries_before(self._num_out())
        return ReplyDelta("".join(content), entries, self.stopped, "".join(reasoning))

    def _num_out(self) -> int:
        """Characters that are out or dropped for good. The first one that is not is the matcher's if
        it holds any (or has found its stop), else the splitter's."""
        if self._matcher.num_held:
            return self._content_end - self._matcher.num_held
        return self._num_decoded - (self._splitter.num_held if self._splitter else 0)

    def _entries_before(self, position: int) -> list[LogprobEntry]:
        """Entries of the tokens whose text is out, all characters before `position`."""
        ready: list[LogprobEntry] = []
        while self._held and self._held[0].end <= position:
            ready.append(self._held.popleft().entry)
        if self._finished or self.stopped is not None:
            # Tokens that begin in the text and end in the stop (or in a lost half character) are part
            # of the reply; those that begin behind its end are not.
            ready += [token.entry for token in self._held if token.start < position]
            self._held.clear()
        return ready

    def _entry(self, event: TokenEvent, logprob: float) -> LogprobEntry:
        sampled = self._candidate(Alternative(event.token_id, logprob))
        return LogprobEntry(
            sampled.id, sampled.token, sampled.logprob, sampled.bytes, [self._candidate(a) for a in event.top]
        )

    def _candidate(self, alternative: Alternative) -> TopLogprob:
        token_id = alternative.token_id
        return TopLogprob(
            token_id,
            self._tokenizer.token_text(token_id),
            min(alternative.logprob, 0.0) if math.isfinite(alternative.logprob) else LOWEST_LOGPROB,
            list(self._tokenizer.token_bytes(token_id)),
        )
