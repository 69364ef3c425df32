"""What a caller asks for and what comes back: the service's own words around the model's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from stoker.speech.types import SAMPLE_RATE, Segment, Transcript, TranscribeOptions
from stoker.speech.vad import Span, VadOptions


@dataclass(frozen=True, slots=True)
class Order:
    """Validated, except that only the checkpoint knows all about languages."""

    options: TranscribeOptions = field(default_factory=TranscribeOptions)
    vad: VadOptions | None = None  # None = no gate
    trim: bool = False  # transcribe only from the first speech to the last


@dataclass(frozen=True, slots=True)
class Timings:
    load_ms: float = 0.0
    transcribe_ms: float = 0.0
    total_ms: float = 0.0
    vad_ms: float | None = None  # with a gate


@dataclass(frozen=True, slots=True)
class VadReport:
    speech: bool
    spans: tuple[Span, ...]
    trimmed: Span | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    model: str
    task: str
    transcript: Transcript  # times from the start of the clip
    duration_s: float  # of the whole clip
    timings: Timings
    vad: VadReport | None = None


def silent_transcript(options: TranscribeOptions, duration_s: float) -> Transcript:
    """Nothing was said. Without a language given none was detected, which reads as English."""
    return Transcript("", options.language or "en", None, duration_s, ())


def seconds(num_samples: int) -> float:
    return num_samples / SAMPLE_RATE


def shift_segment(segment: Segment, offset_s: float) -> Segment:
    """The segment of a clip whose first `offset_s` were cut off, in the clip's own time."""
    if not offset_s:
        return segment
    return replace(
        segment,
        seek=segment.seek + round(offset_s * 100),
        start_s=segment.start_s + offset_s,
        end_s=segment.end_s + offset_s,
        words=tuple(
            replace(word, start_s=word.start_s + offset_s, end_s=word.end_s + offset_s)
            for word in segment.words
        ),
    )
