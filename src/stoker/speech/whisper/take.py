"""One recording on its way to text: sound is fed, windows of 30 s are decoded as they fill up.

`run` decodes the windows that are complete, `finish` the rest. Both are generators that yield after each
window's encoder, after every decoder step and after each window: between two steps the caller may stop,
report, or give the device to somebody else. The loop over windows is openai-whisper's (transcribe.py).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from stoker.preload import complete_torch
from stoker.speech.types import FRAMES_PER_SECOND, SAMPLE_RATE, Segment, TranscribeOptions, Transcript
from stoker.speech.whisper.align import align_words
from stoker.speech.whisper.decoder import CrossCache
from stoker.speech.whisper.mel import LogMel, Samples
from stoker.speech.whisper.prompt import build_prompt, prompt_budget
from stoker.speech.whisper.segments import cut
from stoker.speech.whisper.window import Decoding, WindowDecoder
from stoker.speech.whisper.words import add_words

if TYPE_CHECKING:
    from stoker.speech.whisper.model import WhisperModel

_POSITION_FRAMES = 2
_SECONDS_PER_POSITION = _POSITION_FRAMES / FRAMES_PER_SECOND
_RESET_TEMPERATURE = 0.5  # text accepted above it does not prompt the next window

Steps = Generator[None, None, None]


class Take:
    """Made by WhisperModel.begin. Not thread-safe; between steps any thread may go on with it."""

    def __init__(
        self,
        model: WhisperModel,
        options: TranscribeOptions,
        on_segment: Callable[[Segment], None] | None = None,
    ) -> None:
        self._model = model
        self._options = options
        self._on_segment = on_segment
        self._language = model.language_code(options.language)
        self._language_probability: float | None = None
        dims = model.dims
        positions = min(options.audio_ctx or dims.audio_ctx, dims.audio_ctx)
        self._window_frames = positions * _POSITION_FRAMES
        self._mel = LogMel(dims.num_mels)
        self._encoder, self._decoder = model.networks(faithful=options.faithful)
        complete_torch()
        generator = torch.Generator()
        if options.seed is None:
            generator.seed()
        else:
            generator.manual_seed(options.seed)
        self._windows = WindowDecoder(
            self._decoder,
            model.tokenizer,
            options,
            seconds_per_position=_SECONDS_PER_POSITION,
            generator=generator,
        )
        budget = prompt_budget(dims.text_ctx)
        self._budget = budget
        prompt, self.vocabulary = build_prompt(
            model.tokenizer, options.initial_prompt, options.vocabulary, budget
        )
        self._said: list[int] = list(prompt)  # the prompt, then every token accepted
        self._num_prompt = len(prompt)
        self._prompt_from = 0  # of `_said`, what the next window is told
        self._last_speech_s = 0.0
        self._last_word_s = 0.0
        self._finished = False
        self.seek = 0  # first frame not yet decoded
        self.segments: list[Segment] = []

    @property
    def duration_s(self) -> float:
        return self._mel.num_samples / SAMPLE_RATE

    @property
    def num_frames(self) -> int:
        """Frames of sound so far; `seek` reaches it when all is done."""
        return self._mel.num_frames

    @property
    def language(self) -> str | None:
        """Known from the start, or from the first window on."""
        return self._language

    @property
    def text(self) -> str:
        return self._model.tokenizer.decode(self._said[self._num_prompt :]).strip()

    def feed(self, samples: Samples) -> None:
        """More sound: float32, mono, 16 kHz."""
        self._mel.feed(np.ascontiguousarray(samples, np.float32))

    def run(self) -> Steps:
        """Decodes every window that is complete."""
        while self.seek + self._window_frames <= self._mel.num_frames:
            yield from self._window(self._window_frames)

    def finish(self) -> Steps:
        """No more sound comes: decodes what is left."""
        self._mel.finish()
        self._finished = True
        while self.seek < self._mel.num_frames:
            yield from self._window(min(self._window_frames, self._mel.num_frames - self.seek))

    def transcript(self) -> Transcript:
        """Everything said, after `finish`; before it, everything so far."""
        return Transcript(
            self.text,
            self._language or "en",
            self._language_probability,
            self.duration_s,
            tuple(self.segments),
            self.vocabulary,
        )

    def _window(self, size: int) -> Steps:
        # Beyond the sound lies zero, not silence: so the model was trained.
        mel = torch.nn.functional.pad(self._mel.window(self.seek, size), (0, self._window_frames - size))
        cross = yield from self._encode(mel)
        if self._language is None:
            yield from self._detect(cross, size)
        assert self._language is not None
        start = self._model.tokenizer.start_sequence(
            self._language, self._options.task, self._options.without_timestamps
        )
        prompt = self._said[self._prompt_from :][-self._budget :]
        decoding = yield from self._windows.decode(cross, start, prompt)
        if self._is_silence(decoding):
            self.seek += size
        else:
            self._accept(decoding, cross, size)
        self._mel.release(self.seek)
        yield  # aligning words takes its time

    def _encode(self, mel: torch.Tensor) -> Generator[None, None, CrossCache]:
        layers = self._encoder.steps(mel)
        while True:
            # Not around the yield: torch's number of threads is the process's.
            with nullcontext() if self._encoder.is_native else self._model.all_threads():
                try:
                    next(layers)
                except StopIteration as end:
                    cross = self._decoder.cross(end.value)
                    break
            yield
        yield
        return cross

    def _detect(self, cross: CrossCache, size: int) -> Steps:
        if self._options.faithful and size < self._window_frames:
            # The reference listens to the first 30 s with silence after them; the fast path saves this
            # second run of the encoder.
            cross = yield from self._encode(self._mel.window(0, self._window_frames))
        self._language, self._language_probability = self._model.detect(self._decoder, cross)
        yield

    def _is_silence(self, decoding: Decoding) -> bool:
        options = self._options
        if options.no_speech_threshold is None or decoding.no_speech_prob <= options.no_speech_threshold:
            return False
        return options.logprob_threshold is None or decoding.avg_logprob <= options.logprob_threshold

    def _accept(self, decoding: Decoding, cross: CrossCache, size: int) -> None:
        window_start = self.seek
        tokenizer = self._model.tokenizer
        cuts = cut(decoding.tokens, tokenizer.timestamp_begin, -(-size // _POSITION_FRAMES))
        window_start_s = window_start / FRAMES_PER_SECOND
        segments = [
            Segment(
                0,
                window_start,
                window_start_s + piece.start * _SECONDS_PER_POSITION,
                window_start_s + piece.end * _SECONDS_PER_POSITION,
                tokenizer.decode(piece.tokens),
                piece.tokens,
                decoding.temperature,
                decoding.avg_logprob,
                decoding.compression_ratio,
                decoding.no_speech_prob,
            )
            for piece in cuts.segments
        ]
        self.seek += size if cuts.resume is None else cuts.resume * _POSITION_FRAMES
        if self._options.word_timestamps:
            segments = self._add_words(segments, cross, size, window_start_s)
            ends = [word.end_s for segment in segments for word in segment.words[-1:]]
            if ends:
                self._last_speech_s = ends[-1]
                if not cuts.ends_in_silence and ends[-1] > window_start_s:
                    self.seek = round(ends[-1] * FRAMES_PER_SECOND)
        if self.seek <= window_start:  # no time has passed: never decode the same window for ever
            self.seek = window_start + size
        self._keep(segments)
        if not self._options.condition_on_previous_text or decoding.temperature > _RESET_TEMPERATURE:
            self._prompt_from = len(self._said)

    def _add_words(
        self, segments: list[Segment], cross: CrossCache, size: int, window_start_s: float
    ) -> list[Segment]:
        assert self._language is not None
        tokenizer = self._model.tokenizer
        aligned = align_words(
            self._decoder,
            tokenizer,
            cross,
            self._model.alignment_heads,
            tokenizer.start_sequence(self._language, self._options.task, False),
            [token for segment in segments for token in segment.tokens if token < tokenizer.eot],
            self._language,
            num_frames=size,
            seconds_per_position=_SECONDS_PER_POSITION,
        )
        return add_words(
            segments,
            aligned,
            eot=tokenizer.eot,
            window_start_s=window_start_s,
            last_speech_s=self._last_speech_s,
        )

    def _keep(self, segments: list[Segment]) -> None:
        """Segments without text or length are dropped, their tokens too."""
        for segment in segments:
            if segment.start_s == segment.end_s or not segment.text.strip():
                continue
            segment = replace(segment, id=len(self.segments))
            segment = _inside(segment, self._last_word_s, self.duration_s)
            if segment.words:
                self._last_word_s = segment.words[-1].end_s
            self._said.extend(segment.tokens)
            self.segments.append(segment)
            if self._on_segment is not None:
                self._on_segment(segment)


def _inside(segment: Segment, begin_s: float, end_s: float) -> Segment:
    """No times after the end of the recording (windows are longer than what is left of it), and no word
    before the one before it, which ended at `begin_s`."""
    words = []
    for word in segment.words:
        start_s = min(max(round(word.start_s, 2), begin_s), end_s)
        begin_s = min(max(round(word.end_s, 2), start_s), end_s)
        words.append(replace(word, start_s=start_s, end_s=begin_s))
    return replace(
        segment, start_s=min(segment.start_s, end_s), end_s=min(segment.end_s, end_s), words=tuple(words)
    )
