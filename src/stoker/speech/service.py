"""Transcription as a service: the weights' residency, the order of takes, the gate before Whisper.

Blocking; a caller brings a thread. The HTTP front and the command line sit on top, the model below.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from stoker.errors import GenerationFailed, QueueFull, RequestCancelled, StokerError
from stoker.speech.lane import Device, Lane
from stoker.speech.orders import (
    Order,
    Outcome,
    Span,
    Timings,
    VadReport,
    bounded,
    seconds,
    shift_segment,
    silent_transcript,
)
from stoker.speech.ports import Checkpoint, OnProgress, OnSegment, Steps, Take, Whisper
from stoker.speech.residency import Residency, ResidencyStats, return_memory
from stoker.speech.types import SAMPLE_RATE, Segment, Transcript
from stoker.speech.vad import SileroVad, speech_spans, weights_path
from stoker.speech.wav import Samples

log = logging.getLogger(__name__)

MAX_WAITING = 64  # takes that may wait for the lane, each with its audio in memory
TRIM_MARGIN_S = 0.5
FEED_SAMPLES = 30 * SAMPLE_RATE  # turned into a spectrogram at a time


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class SpeechStats:
    residency: ResidencyStats
    requests: int  # takes that ended; a session counts once
    active: int  # takes that run or wait


class SpeechService:
    """Thread-safe."""

    def __init__(
        self,
        find: Callable[[], Checkpoint],
        *,
        device: Device | None = None,
        idle_unload_s: float | None = 0.0,
        vad_weights: Path | None = None,
    ) -> None:
        self.lane = Lane(device)
        self.residency = Residency(self.checkpoint, idle_unload_s=idle_unload_s, on_unload=return_memory)
        self._find = find
        self._found: Checkpoint | None = None
        self._vad_weights = vad_weights
        self._vad: SileroVad | None = None
        self._lock = threading.Lock()
        self._num_requests = 0

    def checkpoint(self) -> Checkpoint:
        """Which model answers, resolved at the first request. Raises SpeechUnavailable."""
        with self._lock:
            if self._found is None:
                self._found = self._find()
            return self._found

    @property
    def known_checkpoint(self) -> Checkpoint | None:
        """The same without looking for it."""
        return self._found

    def network(self) -> SileroVad:
        """The voice activity network; loaded once, 1 MB. Raises SpeechUnavailable."""
        with self._lock:
            if self._vad is None:
                self._vad = SileroVad(weights_path(self._vad_weights))
            return self._vad

    def preload(self) -> None:
        """Brings the weights in; how long they stay is the residency's to say, but a take comes first."""
        self.residency.preload()

    def stats(self) -> SpeechStats:
        return SpeechStats(self.residency.stats, self._num_requests, self.lane.num_waiting)

    def count_request(self) -> None:
        with self._lock:
            self._num_requests += 1

    def check_room(self) -> None:
        """Raises QueueFull."""
        waiting = self.lane.num_waiting
        if waiting > MAX_WAITING:
            raise QueueFull(f"{waiting} transcriptions are already waiting; try again later")

    def transcribe(
        self,
        samples: Samples,
        order: Order,
        *,
        on_segment: OnSegment | None = None,
        on_progress: OnProgress | None = None,
        should_stop: Callable[[], bool] = _never,
    ) -> Outcome:
        """The whole of one recording. Raises RequestCancelled within a step of `should_stop` turning true,
        SpeechUnavailable, or GenerationFailed."""
        started = time.perf_counter()
        model_id = self.checkpoint().id
        try:
            # The weights go when the device is the others' again.
            with ExitStack() as weights, self.lane.hold(should_stop):
                take = _OneTake(self, samples, order, should_stop, started, weights)
                return take.run(model_id, on_segment, on_progress)
        except (StokerError, MemoryError):
            raise
        except Exception as error:
            log.exception("a transcription failed")
            raise GenerationFailed(f"transcription failed: {error or type(error).__name__}") from error
        finally:
            self.count_request()

    def run_steps(
        self,
        steps: Steps,
        should_stop: Callable[[], bool] = _never,
        after_step: Callable[[], None] = lambda: None,
    ) -> None:
        """By the holder of the lane: all the steps, with other users of the device in between."""
        with closing(steps), torch.inference_mode():
            for _ in steps:
                after_step()
                self.breathe(should_stop)

    def breathe(self, should_stop: Callable[[], bool]) -> None:
        """By the holder of the lane, between two pieces of work."""
        if should_stop():
            raise RequestCancelled("request cancelled")
        self.lane.yield_device()


class _OneTake:
    """One recording that is there as a whole, while the lane is held."""

    def __init__(
        self,
        service: SpeechService,
        samples: Samples,
        order: Order,
        should_stop: Callable[[], bool],
        started: float,
        weights: ExitStack,  # closed after the take
    ) -> None:
        self._service = service
        self._samples = samples
        self._order = order
        self._should_stop = should_stop
        self._started = started
        self._weights = weights

    def run(self, model_id: str, on_segment: OnSegment | None, on_progress: OnProgress | None) -> Outcome:
        duration_s = seconds(len(self._samples))
        vad_ms, report = self._gate()
        load_ms = transcribe_ms = 0.0
        if report is not None and not report.speech:
            transcript = silent_transcript(self._order.options, duration_s)
        else:
            with self._service.lane.aside():
                lease = self._weights.enter_context(self._service.residency.use())
            load_ms = lease.load_ms
            began = time.perf_counter()
            transcript = self._transcribe(
                lease.model, report.trimmed if report else None, on_segment, on_progress
            )
            transcribe_ms = (time.perf_counter() - began) * 1000
        total_ms = (time.perf_counter() - self._started) * 1000
        return Outcome(
            model=model_id,
            task=self._order.options.task,
            transcript=transcript,
            duration_s=duration_s,
            timings=Timings(load_ms, transcribe_ms, total_ms, vad_ms),
            vad=report,
        )

    def _gate(self) -> tuple[float | None, VadReport | None]:
        options = self._order.vad
        if options is None:
            return None, None
        began = time.perf_counter()
        with self._service.lane.aside():
            network = self._service.network()
        spans = speech_spans(self._samples, options, network, self._between)
        trimmed = _widened(spans, len(self._samples)) if self._order.trim and spans else None
        report = VadReport(bool(spans), tuple(spans), trimmed)
        return (time.perf_counter() - began) * 1000, report

    def _between(self) -> None:
        self._service.breathe(self._should_stop)

    def _transcribe(
        self,
        model: Whisper,
        trimmed: Span | None,
        on_segment: OnSegment | None,
        on_progress: OnProgress | None,
    ) -> Transcript:
        start, end = trimmed or (0, len(self._samples))
        offset_s = seconds(start)
        options = replace(self._order.options, language=model.language_code(self._order.options.language))

        duration_s = seconds(len(self._samples))

        def placed(segment: Segment) -> Segment:
            return bounded(shift_segment(segment, offset_s), duration_s)

        def on_placed(segment: Segment) -> None:
            if on_segment is not None:
                on_segment(placed(segment))

        with torch.inference_mode():
            with self._service.lane.aside():  # the reference arithmetic has weights of its own to bring in
                take = model.begin(options, on_placed)
            for at in range(start, end, FEED_SAMPLES):
                take.feed(self._samples[at : min(at + FEED_SAMPLES, end)])
                self._between()
        progress = _Progress(take, on_progress)
        self._service.run_steps(take.finish(), self._should_stop, progress.report)
        progress.end()
        transcript = take.transcript()
        return replace(transcript, segments=tuple(placed(segment) for segment in transcript.segments))


class _Progress:
    """Tells how far a take is, once per window."""

    def __init__(self, take: Take, tell: OnProgress | None) -> None:
        self._take = take
        self._tell = tell
        self._told = 0

    def report(self) -> None:
        done = min(self._take.seek, self._take.num_frames)
        if self._tell is not None and done > self._told:
            self._told = done
            self._tell(done, self._take.num_frames)

    def end(self) -> None:
        self.report()
        if self._tell is not None and self._told < self._take.num_frames:
            self._tell(self._take.num_frames, self._take.num_frames)


def _widened(spans: list[Span], length: int) -> Span:
    margin = int(TRIM_MARGIN_S * SAMPLE_RATE)
    return max(0, spans[0][0] - margin), min(length, spans[-1][1] + margin)
