"""What the service needs of a Whisper model: these methods and no more, so that tests can hand in a small one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from stoker.speech.types import Segment, Transcript, TranscribeOptions, VocabularyUsage
from stoker.speech.wav import Samples

OnSegment = Callable[[Segment], None]
OnProgress = Callable[[int, int], None]  # frames done, frames known so far


class Take(Protocol):
    """One recording on its way to a transcript; it may arrive piece by piece."""

    @property
    def ready(self) -> bool:
        """Whether `steps` has something to do: a full window, or the rest after `end`."""

    def feed(self, samples: Samples) -> None: ...
    def end(self) -> None:
        """No more audio comes."""

    def steps(self) -> Iterator[Any]:
        """Does what can be done now, in pieces: a window's encoder, a few steps of its decoder. Between two
        of them the device may be used by others, and the iteration may be abandoned."""

    def result(self) -> Transcript:
        """After `end`, once `steps` is exhausted."""


class Whisper(Protocol):
    def language_code(self, language: str | None) -> str | None:
        """The code of a language the checkpoint knows; None = detect. Raises InvalidRequest."""

    def vocabulary_usage(self, options: TranscribeOptions) -> VocabularyUsage | None:
        """Which terms fit into the prompt; None when none were given."""

    def begin(
        self,
        options: TranscribeOptions,
        *,
        on_segment: OnSegment | None = None,
        on_progress: OnProgress | None = None,
    ) -> Take: ...


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A Whisper model on disk and how to bring it into memory."""

    id: str
    load: Callable[[], Whisper]
