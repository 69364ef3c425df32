"""Voice activity: Silero VAD's network in torch, and the rule that turns its probabilities into spans.

16 kHz, windows of 512 samples (32 ms) that see 64 samples of what came before. The network is a short-time
spectrum, four convolutions and one LSTM; all windows of a block go through it together. The weights are those
in the silero-vad package's TorchScript archive (its safetensors file is of an older version), read without
importing the package or running the script.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from stoker.preload import complete_torch
from stoker.speech.errors import SpeechUnavailable
from stoker.speech.orders import Span, VadOptions
from stoker.speech.types import SAMPLE_RATE
from stoker.speech.wav import Samples

WINDOW = 512
CONTEXT = 64
BLOCK_WINDOWS = 256  # through the network at a time: 8 s

_FFT_PAD = 64  # samples mirrored at a window's end
_FFT_STRIDE = 128
_BINS = 129
_STRIDES = (1, 2, 2, 1)  # of the four convolutions
_HIDDEN = 128


def weights_path(chosen: Path | None = None) -> Path:
    """The file in use. Raises SpeechUnavailable."""
    if chosen is not None:
        if not chosen.is_file():
            raise SpeechUnavailable(f"the voice activity weights {chosen} do not exist (--vad-model)")
        return chosen
    package = importlib.util.find_spec("silero_vad")  # finds, does not import
    if package is not None and package.origin is not None:
        path = Path(package.origin).parent / "data" / "silero_vad.jit"
        if path.is_file():
            return path
    raise SpeechUnavailable(
        "voice activity detection has no weights: `pip install silero-vad`, or name a file with --vad-model"
    )


class SileroVad:
    """The network. Stateless: the state of a recording is in its `VadStream`."""

    def __init__(self, path: Path) -> None:
        try:
            weights = _read_weights(path)
            self._spectrum = weights["stft.forward_basis_buffer"]
            self._convolutions = [
                (
                    weights[f"encoder.{n}.reparam_conv.weight"],
                    weights[f"encoder.{n}.reparam_conv.bias"],
                    stride,
                )
                for n, stride in enumerate(_STRIDES)
            ]
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            self._lstm = [weights[f"decoder.rnn.{name}"] for name in names]
            self._last = weights["decoder.decoder.2.weight"][:, :, 0], weights["decoder.decoder.2.bias"]
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            raise SpeechUnavailable(f"{path} holds no Silero VAD weights: {error}") from None

    def run(self, windows: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """windows (N, CONTEXT + WINDOW) -> probabilities (N,), and the state after them."""
        with torch.inference_mode():
            x = functional.pad(windows[:, None], (0, _FFT_PAD), "reflect")
            x = functional.conv1d(x, self._spectrum, stride=_FFT_STRIDE)  # (N, 2 * bins, 4)
            x = torch.hypot(x[:, :_BINS], x[:, _BINS:])
            for weight, bias, stride in self._convolutions:
                x = functional.conv1d(x, weight, bias, stride=stride, padding=1).relu()
            out, hidden, cell = torch.lstm(
                x[None, :, :, 0], state, self._lstm, True, 1, 0.0, False, False, True
            )
            weight, bias = self._last
            return functional.linear(out[0].relu(), weight, bias).sigmoid()[:, 0], (hidden, cell)


def _read_weights(path: Path) -> dict[str, Tensor]:
    """The 16 kHz network's tensors: of a TorchScript archive, or of a safetensors file with its names."""
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(path)
        except SafetensorError as error:
            raise ValueError(error) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit announces its retirement
        complete_torch()
        module = torch.jit.load(str(path), map_location="cpu")  # type: ignore[no-untyped-call]
    prefix = "_model."
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in module.state_dict().items()
        if name.startswith(prefix)
    }


class VadStream:
    """One recording's probabilities as its samples arrive, one for each window that is complete."""

    def __init__(self, network: SileroVad) -> None:
        self._network = network
        self._tail = np.zeros(CONTEXT, np.float32)  # context of the next window, and what came after
        self._state = torch.zeros(1, 1, _HIDDEN), torch.zeros(1, 1, _HIDDEN)

    def feed(self, samples: Samples) -> NDArray[np.float32]:
        waiting = np.concatenate((self._tail, samples))
        num_windows = (len(waiting) - CONTEXT) // WINDOW
        used = num_windows * WINDOW
        self._tail = waiting[used:].copy()
        if not num_windows:
            return np.empty(0, np.float32)
        flat = torch.from_numpy(waiting[: used + CONTEXT])
        probabilities, self._state = self._network.run(flat.unfold(0, CONTEXT + WINDOW, WINDOW), self._state)
        return np.asarray(probabilities.numpy(), np.float32)

    def finish(self) -> NDArray[np.float32]:
        """The last window, filled up with silence; empty when nothing is left."""
        missing = (CONTEXT - len(self._tail)) % WINDOW
        return self.feed(np.zeros(missing, np.float32)) if missing else np.empty(0, np.float32)


def speech_probabilities(
    network: SileroVad, samples: Samples, between: Callable[[], None] = lambda: None
) -> NDArray[np.float32]:
    """One per window. `between` is called between blocks: the place to stop, or to let others work."""
    stream = VadStream(network)
    found: list[NDArray[np.float32]] = []
    for block in _blocks(samples):
        found.append(stream.feed(block))
        between()
    return np.concatenate([*found, stream.finish()])


def speech_spans(
    samples: Samples, options: VadOptions, network: SileroVad, between: Callable[[], None] = lambda: None
) -> list[Span]:
    """Where somebody speaks, in order and apart from each other; empty when nobody does."""
    return find_spans(speech_probabilities(network, samples, between), len(samples), options)


def find_spans(
    probabilities: Sequence[float] | NDArray[np.float32], length: int, options: VadOptions
) -> list[Span]:
    """The spans of a recording of `length` samples by the probabilities of its windows."""
    per_ms = SAMPLE_RATE / 1000
    longer_than = options.min_speech_ms * per_ms
    spans = [
        span
        for span in _raw_spans(probabilities, length, options, options.min_silence_ms * per_ms)
        if span[1] - span[0] > longer_than
    ]
    return _padded(spans, int(options.pad_ms * per_ms), length)


def _raw_spans(
    probabilities: Sequence[float] | NDArray[np.float32], length: int, options: VadOptions, pause: float
) -> Iterator[Span]:
    start: int | None = None
    quiet_since: int | None = None
    for number, probability in enumerate(probabilities):
        now = number * WINDOW
        if probability >= options.threshold:
            quiet_since = None
            if start is None:
                start = now
        elif start is not None and probability < options.low_threshold:
            quiet_since = now if quiet_since is None else quiet_since
            if now - quiet_since >= pause:
                yield start, quiet_since
                start = quiet_since = None
    if start is not None:
        yield start, length


def _padded(spans: list[Span], pad: int, length: int) -> list[Span]:
    """Each span wider by `pad` on both sides; where two would meet, they share the gap evenly."""
    starts = [start for start, _ in spans]
    ends = [end for _, end in spans]
    for number in range(len(spans) - 1):
        gap = starts[number + 1] - ends[number]
        share = pad if gap >= 2 * pad else gap // 2
        ends[number] += share
        starts[number + 1] = max(0, starts[number + 1] - share)
    if spans:
        starts[0] = max(0, starts[0] - pad)
        ends[-1] = min(length, ends[-1] + pad)
    return list(zip(starts, ends, strict=True))


def _blocks(samples: Samples) -> Iterator[Samples]:
    for first in range(0, len(samples), BLOCK_WINDOWS * WINDOW):
        yield samples[first : first + BLOCK_WINDOWS * WINDOW]
