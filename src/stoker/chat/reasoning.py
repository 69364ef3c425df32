"""Splits a reply into the model's thinking and its answer, piece by piece.

For the `<think> ... </think>` channel. Works on text; stop strings and tokens are `reply.py`'s
business, other families' channel markers are not known here yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

OPEN_TAG = "<think>"
CLOSE_TAG = "</think>"
TAGS = (OPEN_TAG, CLOSE_TAG)


class Segment(NamedTuple):
    """Text of one channel."""

    is_reasoning: bool
    text: str
    end: int  # characters fed so far up to the end of this text, tags included


class ReasoningSplitter:
    """`feed` text as it comes, `finish` once; both return segments in order.

    Tags are dropped, and half a tag is held back until it is decided. A channel that is never
    closed is reasoning to its end; a closing tag that closes nothing is dropped too.

        feed("<thi") -> []      feed("nk>a</think>b") -> [(True, "a", 8), (False, "b", 17)]
    """

    def __init__(self, starts_inside: bool = False) -> None:
        self._inside = starts_inside  # the prompt ended in an open tag
        self._held = ""
        self._num_decided = 0

    @property
    def num_held(self) -> int:
        """Characters held back."""
        return len(self._held)

    def feed(self, text: str) -> list[Segment]:
        self._held += text
        segments: list[Segment] = []
        while (found := _first_tag(self._held)) is not None:
            at, tag = found
            self._take(at, segments)
            self._held = self._held[len(tag) :]
            self._num_decided += len(tag)
            self._inside = tag == OPEN_TAG
        self._take(len(self._held) - _partial_tag(self._held), segments)
        return segments

    def finish(self) -> list[Segment]:
        """The half tag still held, which turned out to be text."""
        segments: list[Segment] = []
        self._take(len(self._held), segments)
        return segments

    def _take(self, count: int, segments: list[Segment]) -> None:
        text, self._held = self._held[:count], self._held[count:]
        self._num_decided += count
        if text:
            segments.append(Segment(self._inside, text, self._num_decided))


def splitter_for(template_sources: Iterable[str], prompt: str) -> ReasoningSplitter | None:
    """A splitter for a reply to `prompt`, or None when the chat template knows no such channel."""
    if not any(CLOSE_TAG in source for source in template_sources):
        return None
    return ReasoningSplitter(starts_inside=opens_reasoning(prompt))


def opens_reasoning(prompt: str) -> bool:
    """Whether the rendered prompt leaves a thinking block open at its end."""
    return prompt.rstrip().endswith(OPEN_TAG)


def _first_tag(text: str) -> tuple[int, str] | None:
    found = [(at, tag) for tag in TAGS if (at := text.find(tag)) >= 0]
    return min(found, default=None)


def _partial_tag(text: str) -> int:
    """Length of the longest suffix that may still become a tag."""
    for size in range(min(len(CLOSE_TAG) - 1, len(text)), 0, -1):
        if any(size < len(tag) and tag.startswith(text[-size:]) for tag in TAGS):
            return size
    return 0
