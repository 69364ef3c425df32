"""A take that is transcribed while it is still being spoken.

Audio is appended as it comes; a worker (`pump`) feeds it to the model, which computes a window as soon as
one is full. With a gate, Whisper hears nothing until the first speech. Ids, limits and expiry are kept in
sessions.py.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from stoker.errors import GenerationFailed, StokerError
from stoker.speech.audio import MAX_DURATION_S, MIN_SAMPLES
from stoker.speech.errors import AudioError
from stoker.speech.orders import Order, Outcome, Timings, VadReport, bounded, seconds, silent_transcript
from stoker.speech.ports import Steps, Take
from stoker.speech.residency import Lease
from stoker.speech.service import SpeechService
from stoker.speech.types import FRAMES_PER_SECOND, SAMPLE_RATE, Segment, Transcript, VocabularyUsage
from stoker.speech.vad import VadStream, find_spans
from stoker.speech.wav import Samples

log = logging.getLogger(__name__)

WINDOW_FRAMES = 30 * FRAMES_PER_SECOND


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is known after a chunk."""

    num_samples: int  # received so far
    speech: bool  # the gate has opened; False without one
    segments: tuple[Segment, ...]  # finished so far


class Session:
    """`append` and `receipt` return at once; `pump` and `finish` compute, on a caller's thread."""

    def __init__(self, service: SpeechService, order: Order, format: str = "json") -> None:
        """Brings the weights in and keeps them until `close`. Raises SpeechUnavailable, InvalidRequest."""
        self.order = order
        self.format = format  # of the answer; only kept for the caller
        self.model_id = service.checkpoint().id
        self._service = service
        self._gate = None if order.vad is None else _Gate(VadStream(service.network()), order.vad.threshold)
        self._computing = threading.Lock()
        self._lock = threading.Lock()  # of the fields below it
        self._incoming: list[Samples] = []
        self._segments: list[Segment] = []
        self._num_samples = 0
        self._closed = False
        self._pump_planned = False
        self._error: StokerError | None = None
        self._transcribe_ms = self._vad_ms = 0.0
        self._lease: Lease = service.residency.acquire()  # beside whatever the device computes
        try:
            model = self._lease.model
            options = replace(order.options, language=model.language_code(order.options.language))
            with torch.inference_mode():
                self._take: Take = model.begin(options, self._on_segment)
        except BaseException:
            service.residency.release()
            raise

    @property
    def vocabulary(self) -> VocabularyUsage | None:
        return self._take.vocabulary

    def append(self, samples: Samples) -> bool:
        """Whether a `pump` is needed: none is still to begin. Raises AudioError when the take is too long."""
        with self._lock:
            if self._num_samples + len(samples) > MAX_DURATION_S * SAMPLE_RATE:
                raise AudioError(f"the take is longer than {MAX_DURATION_S // 3600} hours; finish it")
            self._num_samples += len(samples)
            self._incoming.append(samples)
            planned, self._pump_planned = self._pump_planned, True
            return not planned

    def receipt(self) -> Receipt:
        with self._lock:
            opened = self._gate is not None and self._gate.open
            return Receipt(self._num_samples, opened, tuple(self._segments))

    def pump(self) -> None:
        """Computes the windows that are full. A failure is kept for `finish`."""
        with self._computing:
            if self._error is None and not self._closed:
                self._guarded(self._advance)

    def finish(self, should_stop: Callable[[], bool] = lambda: False) -> Outcome:
        """What is left, and the whole transcript. Raises what a window failed with."""
        began = time.perf_counter()
        with self._computing:
            if self._error is None:
                self._guarded(self._advance)
            if self._error is not None:
                raise self._error
            duration_s = seconds(self._num_samples)
            report = self._verdict()
            if self._num_samples < MIN_SAMPLES or (report is not None and not report.speech):
                transcript = silent_transcript(self.order.options, duration_s)
            else:
                transcript = self._rest(should_stop)
        total_ms = (time.perf_counter() - began) * 1000
        vad_ms = self._vad_ms if self._gate is not None else None
        return Outcome(
            model=self.model_id,
            task=self.order.options.task,
            transcript=transcript,
            duration_s=duration_s,
            timings=Timings(self._lease.load_ms, self._transcribe_ms, total_ms, vad_ms),
            vad=report,
        )

    def close(self) -> None:
        """Lets the weights go. A window being computed ends at its next step. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._incoming.clear()
        self._service.lane.wake()
        with self._computing:  # a window under way still needs the weights
            self._service.residency.release()
        self._service.count_request()

    def _advance(self) -> None:
        with self._lock:
            incoming, self._incoming = self._incoming, []
            self._pump_planned = False
        for samples in incoming:
            self._feed(self._through_gate(samples))
        if self._take.num_frames - self._take.seek >= WINDOW_FRAMES:
            self._compute(self._take.run(), lambda: self._closed)

    def _rest(self, should_stop: Callable[[], bool]) -> Transcript:
        if self._gate is not None:
            self._feed(self._gate.kept())
        self._compute(self._take.finish(), lambda: self._closed or should_stop())
        transcript = self._take.transcript()
        duration_s = seconds(self._num_samples)
        return replace(
            transcript, segments=tuple(bounded(segment, duration_s) for segment in transcript.segments)
        )

    def _feed(self, blocks: list[Samples]) -> None:
        with torch.inference_mode():
            for samples in blocks:
                self._take.feed(samples)

    def _compute(self, steps: Steps, should_stop: Callable[[], bool]) -> None:
        with self._service.lane.hold(should_stop):
            began = time.perf_counter()
            self._service.run_steps(steps, should_stop)
            self._transcribe_ms += (time.perf_counter() - began) * 1000

    def _through_gate(self, samples: Samples) -> list[Samples]:
        if self._gate is None:
            return [samples]
        began = time.perf_counter()
        passed = self._gate.pass_on(samples)
        self._vad_ms += (time.perf_counter() - began) * 1000
        return passed

    def _verdict(self) -> VadReport | None:
        if self._gate is None or self.order.vad is None:
            return None
        spans = tuple(find_spans(self._gate.finish(), self._num_samples, self.order.vad))
        return VadReport(bool(spans), spans)

    def _on_segment(self, segment: Segment) -> None:
        with self._lock:
            self._segments.append(segment)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except StokerError as error:
            self._error = error
        except Exception as error:
            log.exception("a window of a transcription session failed")
            self._error = GenerationFailed(f"transcription failed: {error or type(error).__name__}")


class _Gate:
    """Keeps audio back until a window reaches the threshold, and remembers every window's probability."""

    def __init__(self, stream: VadStream, threshold: float) -> None:
        self.open = False
        self._stream = stream
        self._threshold = threshold
        self._probabilities: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []
        self._kept: list[Samples] = []

    def pass_on(self, samples: Samples) -> list[Samples]:
        """What may be fed now: nothing, or everything so far."""
        probabilities = self._stream.feed(samples)
        self._probabilities.append(probabilities)
        self._kept.append(samples)
        self.open = self.open or bool((probabilities >= self._threshold).any())
        return self.kept() if self.open else []

    def kept(self) -> list[Samples]:
        kept, self._kept = self._kept, []
        return kept

    def finish(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        """The probabilities of the whole take."""
        self._probabilities.append(self._stream.finish())
        return np.concatenate(self._probabilities)
