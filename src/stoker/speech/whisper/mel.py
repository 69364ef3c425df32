"""The log-mel spectrogram, fed piece by piece: what Whisper hears.

Legend: a frame is 10 ms (160 samples), seen through 400 samples around its start. Frames are kept as
log10 energies; `window` normalizes them against the loudest value so far.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
import torch

from stoker.speech.types import FRAME_SAMPLES, SAMPLE_RATE

FFT_SAMPLES = 400
_NUM_BINS = FFT_SAMPLES // 2 + 1
_EDGE = FFT_SAMPLES // 2  # a frame needs this many samples on either side of its start
_SILENCE = -10.0  # log10 of the floor, 1e-10
_RANGE = 8.0  # decades below the loudest value that are kept
_BLOCK_FRAMES = 3000  # transformed at a time

Samples = npt.NDArray[np.float32]


@cache
def mel_filters(num_mels: int) -> torch.Tensor:
    """[num_mels, bins]: triangles on Slaney's mel scale, each with an area of one."""
    bins_hz = np.linspace(0, SAMPLE_RATE / 2, _NUM_BINS)
    edges_hz = _mel_to_hz(np.linspace(0, _hz_to_mel(SAMPLE_RATE / 2), num_mels + 2))
    widths = np.diff(edges_hz)[:, None]
    distance = edges_hz[:, None] - bins_hz[None, :]  # [num_mels + 2, bins]
    rising = -distance[:-2] / widths[:-1]
    falling = distance[2:] / widths[1:]
    area = 2.0 / (edges_hz[2:] - edges_hz[:-2])
    filters = np.maximum(0, np.minimum(rising, falling)) * area[:, None]
    return torch.from_numpy(filters.astype(np.float32))


# Slaney: linear up to 1 kHz (15 mels), then logarithmic.
_LINEAR_HZ = 200.0 / 3
_BREAK_HZ = 1000.0
_BREAK_MEL = _BREAK_HZ / _LINEAR_HZ
_LOG_STEP = np.log(6.4) / 27.0


def _hz_to_mel(hz: float) -> float:
    if hz < _BREAK_HZ:
        return hz / _LINEAR_HZ
    return float(_BREAK_MEL + np.log(hz / _BREAK_HZ) / _LOG_STEP)


def _mel_to_hz(mel: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    exponential: npt.NDArray[np.float64] = _BREAK_HZ * np.exp(_LOG_STEP * (mel - _BREAK_MEL))
    return np.where(mel < _BREAK_MEL, mel * _LINEAR_HZ, exponential)


class LogMel:
    """`feed` samples, `finish` once. Frames are there as soon as their samples are."""

    def __init__(self, num_mels: int) -> None:
        self.num_samples = 0
        self._filters = mel_filters(num_mels)
        self._hann = torch.hann_window(FFT_SAMPLES)
        self._blocks: list[torch.Tensor] = []  # [num_mels, frames] each
        self._num_computed = 0
        self._loudest = _SILENCE
        self._finished = False
        # Samples not yet turned into frames; the first frame sees the beginning mirrored.
        self._rest = np.zeros(0, np.float32)
        self._mirrored = False

    @property
    def num_frames(self) -> int:
        """Frames of sound, without those that only finish() can complete."""
        return self.num_samples // FRAME_SAMPLES if self._finished else self._num_computed

    def feed(self, samples: Samples) -> None:
        assert not self._finished
        self.num_samples += len(samples)
        self._rest = np.concatenate((self._rest, samples))
        if not self._mirrored:
            if len(self._rest) <= _EDGE:
                return
            self._mirror()
        self._compute()

    def finish(self) -> None:
        """No more sound: silence follows."""
        if self._finished:
            return
        self._finished = True
        self._rest = np.concatenate((self._rest, np.zeros(2 * FFT_SAMPLES, np.float32)))
        if not self._mirrored:
            self._mirror()
        self._compute()

    def window(self, first: int, size: int) -> torch.Tensor:
        """[num_mels, size] frames from `first` on, normalized; silence where there are none yet."""
        parts, start = [], 0
        for block in self._blocks:
            end = start + block.shape[1]
            if end > first and start < first + size:
                parts.append(block[:, max(0, first - start) : first + size - start])
            start = end
        frames = torch.cat(parts, dim=1) if parts else torch.empty(self._filters.shape[0], 0)
        frames = torch.nn.functional.pad(frames, (0, size - frames.shape[1]), value=_SILENCE)
        return (frames.clamp(min=self._loudest - _RANGE) + 4.0) / 4.0

    def release(self, before: int) -> None:
        """Frames before this one are not asked for again: their memory goes, block by block."""
        start = 0
        for index, block in enumerate(self._blocks):
            start += block.shape[1]
            if start > before:
                break
            if block.stride(1):
                # The place is kept so that frames keep their numbers.
                self._blocks[index] = torch.full((block.shape[0], 1), _SILENCE).expand(block.shape)

    def _mirror(self) -> None:
        self._rest = np.concatenate((self._rest[_EDGE:0:-1], self._rest))
        self._mirrored = True

    def _compute(self) -> None:
        while (ready := (len(self._rest) - FFT_SAMPLES) // FRAME_SAMPLES + 1) > 0:
            count = min(ready, _BLOCK_FRAMES)
            used = (count - 1) * FRAME_SAMPLES + FFT_SAMPLES
            sound = torch.from_numpy(self._rest[:used]).unfold(0, FFT_SAMPLES, FRAME_SAMPLES)
            spectrum = torch.fft.rfft(sound * self._hann)  # [frames, bins]
            energy = self._filters @ spectrum.abs().square().T
            block = energy.clamp(min=1e-10).log10()
            self._loudest = max(self._loudest, float(block.max()))
            self._blocks.append(block)
            self._num_computed += count
            self._rest = self._rest[count * FRAME_SAMPLES :]
