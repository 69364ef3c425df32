"""The words of speech to text: what a caller may ask for and what comes back. Plain values only.

Times are seconds from the start of the samples given. A frame is one column of the mel spectrogram, 10 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SAMPLE_RATE = 16_000
FRAMES_PER_SECOND = 100
FRAME_SAMPLES = SAMPLE_RATE // FRAMES_PER_SECOND

Task = Literal["transcribe", "translate"]

# What a decoding that looks bad is tried again with, in order.
TEMPERATURE_LADDER = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


class Cancelled(Exception):
    """`should_stop` turned true; nothing of the take is kept."""


@dataclass(frozen=True, slots=True)
class Word:
    start_s: float
    end_s: float
    text: str  # with the space before it, where the language writes one
    probability: float  # mean over its tokens


@dataclass(frozen=True, slots=True)
class Segment:
    id: int  # from 0
    seek: int  # the window's first frame
    start_s: float
    end_s: float
    text: str  # leading space kept
    tokens: tuple[int, ...]  # timestamps included
    temperature: float  # this and the next three: of the window's accepted decoding
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class VocabularyUsage:
    """Which terms of `TranscribeOptions.vocabulary` fitted into the prompt."""

    included: tuple[str, ...]
    omitted: tuple[str, ...]
    token_count: int  # of the whole prompt
    token_budget: int


@dataclass(frozen=True, slots=True)
class Transcript:
    text: str  # trimmed
    language: str  # code
    language_probability: float | None  # None when the caller named the language
    duration_s: float
    segments: tuple[Segment, ...]
    vocabulary: VocabularyUsage | None = None  # when terms were given

    @property
    def words(self) -> tuple[Word, ...]:
        return tuple(word for segment in self.segments for word in segment.words)


@dataclass(frozen=True, slots=True)
class TranscribeOptions:
    """Already validated by the front, except `language`: only the checkpoint knows its languages
    (`WhisperModel.language_code` answers, or raises InvalidRequest)."""

    language: str | None = None  # code or English name; None or "auto" = detect
    task: Task = "transcribe"
    temperatures: tuple[float, ...] = TEMPERATURE_LADDER  # one value = no fallback
    beam_size: int = 1  # at temperature 0
    patience: float = 1.0  # beams finished before a search ends = beam_size * patience
    length_penalty: float | None = None  # None = mean log-probability; else Google NMT's alpha
    best_of: int = 1  # samples drawn at a temperature above 0
    initial_prompt: str | None = None
    vocabulary: tuple[str, ...] = ()
    condition_on_previous_text: bool = True
    word_timestamps: bool = False
    without_timestamps: bool = False
    max_initial_timestamp_s: float | None = 1.0
    no_speech_threshold: float | None = 0.6
    logprob_threshold: float | None = -1.0
    compression_ratio_threshold: float | None = 2.4
    audio_ctx: int | None = None  # encoder positions kept, of 1500; None = all
    seed: int | None = None  # None = fresh entropy
    faithful: bool = False  # the reference arithmetic instead of the fast path
