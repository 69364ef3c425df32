"""What a reader makes of a reply's text."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from stoker.chat.calls import CallWriter, ToolCallDelta


class Segment(NamedTuple):
    """Text of one channel."""

    is_reasoning: bool
    text: str
    end: int  # characters fed so far up to the end of this text, markup included


Piece = Segment | ToolCallDelta


class Reader(Protocol):
    """`feed` text as it comes, `finish` once; both return pieces in order. Markup is in none of them."""

    calls: CallWriter
    inside: bool  # the text now coming is thinking

    @property
    def num_held(self) -> int: ...  # characters held back that may still become text
    def feed(self, text: str) -> list[Piece]: ...
    def finish(self) -> list[Piece]: ...
