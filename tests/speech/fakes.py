"""A Whisper small enough to read: every full window is one segment that says which window it is.

Steps are counted, and can be made slow or made to fail, so that tests see what the service does with them.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stoker.errors import InvalidRequest
from stoker.speech.ports import Checkpoint, Steps
from stoker.speech.service import SpeechService
from stoker.speech.types import Segment, TranscribeOptions, Transcript, VocabularyUsage, Word

RATE = 16_000
WINDOW_FRAMES = 3000


@dataclass
class FakeWhisper:
    texts: list[str] = field(default_factory=lambda: [" Hello there."])  # of the windows, in turn
    steps_per_window: int = 4
    step_s: float = 0.0
    fail_in_window: int | None = None
    gate: threading.Event | None = None  # awaited before every step
    takes: list[FakeTake] = field(default_factory=list)
    num_steps: int = 0
    concurrent: int = 0
    max_concurrent: int = 0

    def language_code(self, language: str | None) -> str | None:
        if language == "yue":
            raise InvalidRequest("unsupported language: yue")
        return language

    def begin(
        self, options: TranscribeOptions, on_segment: Callable[[Segment], None] | None = None
    ) -> FakeTake:
        take = FakeTake(self, options, on_segment)
        self.takes.append(take)
        return take


class FakeTake:
    def __init__(
        self,
        model: FakeWhisper,
        options: TranscribeOptions,
        on_segment: Callable[[Segment], None] | None,
    ) -> None:
        self.model = model
        self.options = options
        self.fed: list[NDArray[np.float32]] = []
        self.segments: list[Segment] = []
        self.seek = 0
        self.vocabulary: VocabularyUsage | None = None
        if options.vocabulary:
            self.vocabulary = VocabularyUsage(options.vocabulary, (), 5, 223)
        self._on_segment = on_segment

    @property
    def num_samples(self) -> int:
        return sum(len(block) for block in self.fed)

    @property
    def num_frames(self) -> int:
        return self.num_samples // 160

    def feed(self, samples: NDArray[np.float32]) -> None:
        assert samples.dtype == np.float32
        assert samples.ndim == 1
        self.fed.append(samples)

    def run(self) -> Steps:
        while self.seek + WINDOW_FRAMES <= self.num_frames:
            yield from self._window(WINDOW_FRAMES)

    def finish(self) -> Steps:
        while self.seek < self.num_frames:
            yield from self._window(min(WINDOW_FRAMES, self.num_frames - self.seek))

    def transcript(self) -> Transcript:
        text = "".join(segment.text for segment in self.segments).strip()
        language = self.options.language or "en"
        duration_s = self.num_samples / RATE
        return Transcript(text, language, None, duration_s, tuple(self.segments), self.vocabulary)

    def _window(self, size: int) -> Steps:
        model, number = self.model, len(self.segments)
        if number == model.fail_in_window:
            raise RuntimeError("the fake was told to fail")
        for _ in range(model.steps_per_window):
            model.concurrent += 1
            model.max_concurrent = max(model.max_concurrent, model.concurrent)
            if model.gate is not None:
                assert model.gate.wait(10)
            time.sleep(model.step_s)
            model.num_steps += 1
            model.concurrent -= 1
            yield
        start_s = self.seek / 100
        end_s = start_s + size / 100 + 0.5  # as the real one does, a little beyond the end
        text = model.texts[number % len(model.texts)]
        words = (Word(start_s, start_s + 0.2, " Hello", 0.9), Word(start_s + 0.2, end_s, " there.", 0.8))
        segment = Segment(
            id=number,
            seek=self.seek,
            start_s=start_s,
            end_s=end_s,
            text=text,
            tokens=(50364, 2425, 50414),
            temperature=0.0,
            avg_logprob=-0.3,
            compression_ratio=1.1,
            no_speech_prob=0.01,
            words=words if self.options.word_timestamps else (),
        )
        self.segments.append(segment)
        if self._on_segment is not None:
            self._on_segment(segment)
        self.seek += size


def make_service(model: FakeWhisper, **options: Any) -> SpeechService:
    return SpeechService(lambda: Checkpoint("tiny/whisper", lambda: model), **options)


class LentDevice:
    """Runs what is lent on a thread of its own and counts the steps it makes in between."""

    def __init__(self) -> None:
        self.steps = 0
        self.busy = False
        self._work: queue.Queue[tuple[Callable[[], Any], Future[Any]] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def run_between(self, work: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._work.put((work, future))
        return future

    def close(self) -> None:
        self._work.put(None)
        self._thread.join(10)

    def await_idle(self) -> None:
        deadline = time.monotonic() + 10
        while self.busy:
            assert time.monotonic() < deadline, "the device was not given back"
            time.sleep(0.001)

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            self.steps += 1
            work, future = item
            self.busy = True
            future.set_result(work())
            self.busy = False
