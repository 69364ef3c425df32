"""What a caller asks for and what comes back: the service's own words around the model's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from stoker.speech.types import SAMPLE_RATE, Segment, TranscribeOptions, Transcript

Span = tuple[int, int]  # samples, end excluded


@dataclass(frozen=True, slots=True)
class VadOptions:
    threshold: float = 0.5
    min_speech_ms: float = 250.0  # a span must be longer
    min_silence_ms: float = 100.0  # a pause must be as long to end a span
    pad_ms: float = 30.0  # added on both sides

    @property
    def low_threshold(self) -> float:
        """Below it a span may end."""
        return max(self.threshold - 0.15, 0.01)


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


def bounded(segment: Segment, duration_s: float) -> Segment:
    """The segment with all its times inside the clip, and its words in order. Timestamps are predicted, so
    the last ones may lie beyond the end."""
    start = min(max(0.0, segment.start_s), duration_s)
    end = min(max(start, segment.end_s), duration_s)
    at = 0.0
    words = []
    for word in segment.words:
        word_start = min(max(at, word.start_s), duration_s)
        at = min(max(word_start, word.end_s), duration_s)
        words.append(replace(word, start_s=word_start, end_s=at))
    return replace(segment, start_s=start, end_s=end, words=tuple(words))


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
