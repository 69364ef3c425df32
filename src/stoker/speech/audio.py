"""Any audio to blocks of 16 kHz mono float32: WAV by our own exact parser, the rest through FFmpeg.

What a file is, is read from its bytes; names and declared types count for nothing. Decoding streams:
one block at a time, so a long recording is in memory once, where the caller gathers it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from stoker.speech.errors import AudioError, undecodable
from stoker.speech.types import SAMPLE_RATE
from stoker.speech.wav import MAX_RATE, MIN_RATE, Samples, is_wav, read_header, read_samples

if TYPE_CHECKING:
    from av import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer

Source = bytes | Path | BinaryIO  # a file object must be seekable

MIN_SAMPLES = SAMPLE_RATE // 10
MAX_DURATION_S = 12 * 3600  # of float32 in memory: 2.8 GB

# Containers and raw streams of audio. Nothing that refers to other files or addresses (playlists,
# concatenation scripts) is among them, so an upload cannot make the server read anything but itself.
_DEMUXERS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dts,eac3,flac,flv,matroska,mov,mp3,mpeg,mpegts,mpc,mpc8,"
    "ogg,rm,tta,voc,w64,wav,wv"
)  # fmt: skip


def decode(source: Source) -> Iterator[Samples]:
    """Blocks of mono samples at 16 kHz, none of them empty. Raises AudioError, perhaps in the middle."""
    if isinstance(source, Path):
        with source.open("rb") as opened:
            yield from decode(opened)
        return
    file = io.BytesIO(source) if isinstance(source, bytes) else source
    file.seek(0)
    head = file.read(12)
    if not head:
        raise undecodable("it is empty")
    wav = read_header(file) if is_wav(head) else None
    blocks = _from_ffmpeg(file) if wav is None else to_16k(_mono(read_samples(file, wav)), wav.rate)
    num_samples = 0
    for block in blocks:
        num_samples += len(block)
        if num_samples > MAX_DURATION_S * SAMPLE_RATE:
            raise AudioError(f"audio is longer than {MAX_DURATION_S // 3600} hours; send it in parts")
        if len(block):
            yield block


def read_audio(source: Source, between: Callable[[], None] = lambda: None) -> Samples:
    """The whole of it, at least 0.1 s. Raises AudioError. `between` runs between blocks, and may raise."""

    def blocks() -> Iterator[Samples]:
        for block in decode(source):
            between()
            yield block

    samples = gather(blocks())
    if len(samples) < MIN_SAMPLES:
        raise AudioError("audio is shorter than 0.1 s")
    return samples


def gather(blocks: Iterable[Samples]) -> Samples:
    """One array, grown in place, so that the samples are never in memory twice for long."""
    gathered = np.empty(SAMPLE_RATE * 30, np.float32)
    length = 0
    for block in blocks:
        if length + len(block) > len(gathered):
            # realloc: for large arrays the system moves pages instead of copying them.
            gathered.resize(max(length + len(block), len(gathered) * 5 // 4), refcheck=False)
        gathered[length : length + len(block)] = block
        length += len(block)
    gathered.resize(length, refcheck=False)
    return gathered


def _mono(blocks: Iterable[Samples]) -> Iterator[Samples]:
    for block in blocks:
        yield block[:, 0] if block.shape[1] == 1 else block.mean(axis=1, dtype=np.float32)


def to_16k(blocks: Iterator[Samples], rate: int) -> Iterator[Samples]:
    """Mono at `rate` to mono at 16 kHz."""
    if rate == SAMPLE_RATE:
        yield from blocks
        return
    from av import AudioFrame

    def frames() -> Iterator[AudioFrame]:
        for block in blocks:
            frame = AudioFrame.from_ndarray(np.ascontiguousarray(block)[None], format="flt", layout="mono")
            frame.sample_rate = rate
            yield frame

    yield from _resample(frames())


def _resample(frames: Iterable[AudioFrame]) -> Iterator[Samples]:
    """Mono at 16 kHz. A stream may change its format on the way; each stretch is resampled by itself."""
    from av import AudioResampler

    resampler: AudioResampler | None = None
    current: tuple[str, str, int] | None = None
    for frame in frames:
        kind = frame.format.name, frame.layout.name, frame.sample_rate
        if kind != current:
            if resampler is not None:
                yield from _arrays(resampler.resample(None))
            if not MIN_RATE <= frame.sample_rate <= MAX_RATE:
                raise undecodable(f"a sample rate of {frame.sample_rate} Hz")
            resampler, current = AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE), kind
        assert resampler is not None
        frame.pts = None  # gaps and jumps in time stamps are not filled with silence
        yield from _arrays(resampler.resample(frame))
    if resampler is not None:
        yield from _arrays(resampler.resample(None))


def _arrays(frames: Iterable[AudioFrame]) -> Iterator[Samples]:
    for frame in frames:
        samples = np.asarray(frame.to_ndarray(), np.float32).reshape(-1)
        yield np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0)


def _from_ffmpeg(file: BinaryIO) -> Iterator[Samples]:
    import av

    av.logging.set_level(None)
    file.seek(0)
    options = {"format_whitelist": _DEMUXERS, "protocol_whitelist": "none"}
    try:
        container = av.open(file, "r", options=options, metadata_errors="ignore")
    except (av.FFmpegError, ValueError) as error:
        raise undecodable(f"not an audio format known here ({_reason(error)})") from None
    with container:
        name = container.format.name
        if not container.streams.audio:
            raise undecodable(f"the {name} file has no audio track")
        found = False
        try:
            for block in _resample(_frames(container, container.streams.audio[0])):
                found = True
                yield block
        except av.FFmpegError as error:
            raise undecodable(f"the {name} file's audio cannot be read ({_reason(error)})") from None
        if not found:
            raise undecodable(f"nothing in the {name} file could be decoded")


def _frames(container: InputContainer, stream: AudioStream) -> Iterator[AudioFrame]:
    """Every frame that can be decoded; a damaged packet is skipped, and a cut file ends early."""
    import av

    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets, None)
        except av.FFmpegError:
            return
        if packet is None:
            return
        with suppress(av.error.InvalidDataError, av.error.EOFError):
            yield from packet.decode()


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
