"""What the service needs of a Whisper model: these methods and no more, so that a small one fits too."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Protocol

from stoker.speech.types import Segment, TranscribeOptions, Transcript, VocabularyUsage
from stoker.speech.wav import Samples

OnSegment = Callable[[Segment], None]
OnProgress = Callable[[int, int], None]  # frames done, of how many

# Between two steps the device may be used by others, and the work may be abandoned.
Steps = Generator[None, None, None]


class Take(Protocol):
    """One recording on its way to a transcript; it may arrive piece by piece."""

    @property
    def seek(self) -> int:
        """The first frame not yet decoded."""

    @property
    def num_frames(self) -> int:
        """Fed so far."""

    @property
    def vocabulary(self) -> VocabularyUsage | None: ...
    def feed(self, samples: Samples) -> None: ...
    def run(self) -> Steps:
        """Decodes the windows that are complete."""

    def finish(self) -> Steps:
        """No more sound comes: decodes what is left."""

    def transcript(self) -> Transcript: ...


class Whisper(Protocol):
    def language_code(self, language: str | None) -> str | None:
        """The code of a language the checkpoint knows; None = detect. Raises InvalidRequest."""

    def begin(self, options: TranscribeOptions, on_segment: OnSegment | None = None) -> Take: ...


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A Whisper model on disk and how to bring it into memory."""

    id: str
    load: Callable[[], Whisper]
