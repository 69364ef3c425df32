"""One choice's token events to text, stop strings and logprob entries.

Sits between the engine (ids) and a protocol (JSON): bytes -> characters -> reasoning, answer or tool
call -> stop strings, each stage holding back what it cannot decide yet.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker.chat.calls import ToolCallDelta
from stoker.chat.detokenizer import Detokenizer
from stoker.chat.harmony_reader import HarmonyReader
from stoker.chat.reader import ReplyReader
from stoker.chat.reading import ReplyReading
from stoker.chat.segments import Piece, Reader, Segment
from stoker.chat.stops import StopMatcher
from stoker.chat.tokenizer import Tokenizer
from stoker.chat.tools import FORMATS, tool_call_tag
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


@dataclass(slots=True)  # not frozen: there is one for every token
class ReplyDelta:
    """What one event adds to a reply."""

    text: str = ""
    logprobs: Sequence[LogprobEntry] = ()
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
        reading: ReplyReading | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._special_ids = tokenizer.special_ids
        self._want_logprobs = want_logprobs
        self._detokenizer = Detokenizer()
        self._reader = None if reading is None else _reader_for(reading)
        self._closing = "" if reading is None else _closing_of(reading)
        self._markup = frozenset() if reading is None else _markup_of(reading)
        self._matcher = StopMatcher(stops)
        self._num_decoded = 0  # characters out of the detokenizer, tags included
        self._content_end = 0  # of those, up to the last answer text given to the matcher
        self._held: deque[_Held] = deque()
        self._finished = False
        self.num_tokens = 0  # completion tokens to bill: the stopping EOS counts
        self.num_reasoning_tokens = 0  # of those, tokens of the thinking channel

    @property
    def num_calls(self) -> int:
        return self._reader.calls.num_calls if self._reader else 0

    @property
    def call_is_cut(self) -> bool:
        """The last call did not come to its end."""
        return self._reader is not None and self._reader.calls.is_cut

    @property
    def is_reasoning(self) -> bool:
        """The next token is part of the thinking channel, as far as is known."""
        return self._reader is not None and self._reader.inside

    @property
    def stopped(self) -> str | None:
        """The stop string that ended the reply, if one did."""
        return self._matcher.matched

    def push(self, event: TokenEvent) -> ReplyDelta:
        """Text and entries that are certain now. EOS and other special tokens have neither."""
        if self._finished or self._matcher.matched is not None:
            return ReplyDelta(stopped=self.stopped)
        token_id = event.token_id
        self.num_tokens += 1
        if self._reader is not None and self._reader.inside:
            self.num_reasoning_tokens += 1
        if event.is_eos or (token_id in self._special_ids and self._is_hidden(token_id)):
            return ReplyDelta()
        data = self._tokenizer.token_bytes(token_id)
        start = self._num_decoded
        text = self._detokenizer.feed(data)
        self._num_decoded += len(text)
        if self._want_logprobs and data and event.logprob is not None:
            end = self._num_decoded + (self._detokenizer.num_held_bytes > 0)
            self._held.append(_Held(self._entry(event, event.logprob), start, end))
        if self._reader is not None:
            return self._release(self._reader.feed(text))
        self._content_end = self._num_decoded
        text, stopped = self._matcher.feed(text)
        return ReplyDelta(text, self._entries_out() if self._want_logprobs else (), stopped)

    @property
    def closing_text(self) -> str:
        """What ends the thinking channel, as the family's replies write it."""
        return self._closing

    def insert(self, text: str) -> ReplyDelta:
        """Text that the reply goes on with and no token of it was generated for."""
        self._detokenizer = Detokenizer()  # half a character was cut off
        self._num_decoded += len(text)
        return self._release(self._reader.feed(text) if self._reader else [])

    def finish(self, reason: FinishReason) -> ReplyDelta:
        """The tail that was held back. `reason` is the engine's; a match found only now shows as
        `stopped` and wins over it."""
        if self._finished or self.stopped is not None:
            return ReplyDelta(stopped=self.stopped)
        self._finished = True
        return self._release(self._reader.finish() if self._reader else [])

    def _is_hidden(self, token_id: int) -> bool:
        """Special tokens are no text, except where they are markup that the reader looks for. Asked of
        special tokens only."""
        return self._tokenizer.token_text(token_id) not in self._markup

    def _release(self, pieces: list[Piece]) -> ReplyDelta:
        """Matches stops in `pieces` and gives out all that is certain, with its entries."""
        reasoning = content = ""
        calls: list[ToolCallDelta] = []
        for piece in pieces:
            if isinstance(piece, Segment) and not piece.is_reasoning:
                content += self._matcher.feed(piece.text)[0]
                self._content_end = piece.end
            else:
                # A stop does not reach across thinking or a call.
                content += self._matcher.finish()[0]
            if self.stopped is not None:
                break
            if not isinstance(piece, Segment):
                calls.append(piece)
            elif piece.is_reasoning:
                reasoning += piece.text
        if self._finished and self.stopped is None:
            content += self._matcher.finish()[0]
        complete = self._reader is not None and self._reader.calls.complete
        return ReplyDelta(content, self._entries_out(), self.stopped, reasoning, tuple(calls), complete)

    def _num_out(self) -> int:
        """Characters that are out or dropped for good. The first one that is not is the matcher's if
        it holds any (or has found its stop), else the splitter's."""
        if self._matcher.num_held:
            return self._content_end - self._matcher.num_held
        return self._num_decoded - (self._reader.num_held if self._reader else 0)

    def _entries_out(self) -> Sequence[LogprobEntry]:
        """Entries of the tokens whose text is out."""
        if not self._held:
            return ()
        position = self._num_out()
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


def _reader_for(reading: ReplyReading) -> Reader:
    return HarmonyReader(reading) if reading.is_harmony else ReplyReader(reading)


def _markup_of(reading: ReplyReading) -> frozenset[str]:
    """The tokens that the reader must see though they are special."""
    markup = set(reading.reasoning or ())
    if reading.is_harmony:
        markup.update(FORMATS["harmony"].tokens)
    elif reading.tool_format is not None:
        found = FORMATS[reading.tool_format]
        markup.update(found.markers, found.tokens, (tool_call_tag.OPEN, tool_call_tag.CLOSE))
    return frozenset(markup)


def _closing_of(reading: ReplyReading) -> str:
    if reading.is_harmony:
        return "<|end|><|start|>assistant<|channel|>final<|message|>"
    return f"\n{reading.reasoning[1]}\n\n" if reading.reasoning else ""
