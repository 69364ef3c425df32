"""RIFF/WAVE files read exactly: every PCM width, float, A-law and mu-law, whatever the chunks' order.

    RIFF <size> WAVE  { <id> <size> <content> <pad to even> }*      sizes: 32-bit little-endian
    fmt : tag u16, channels u16, rate u32, bytes/s u32, block u16, bits u16
          [, extra u16 [, valid bits u16, channel mask u32, subformat GUID]]   for tag 0xFFFE

Only reads: mixing to mono and changing the rate are the caller's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from stoker.speech.errors import undecodable

Samples = NDArray[np.float32]

BLOCK_FRAMES = 1 << 16  # read at a time
MAX_CHANNELS = 64
MIN_RATE, MAX_RATE = 1_000, 1_000_000  # Hz; what lies outside is a damaged header

_PCM, _FLOAT, _ALAW, _MULAW, _EXTENSIBLE = 0x0001, 0x0003, 0x0006, 0x0007, 0xFFFE
_GUID_TAIL = bytes.fromhex("000000001000800000aa00389b71")  # after the tag, of every standard subformat
_UNKNOWN_SIZE = 0xFFFFFFFF  # written by programs that stream, and by RF64
_SANE_MAGNITUDE = 1e6  # of a float sample


@dataclass(frozen=True, slots=True)
class WavFormat:
    tag: int  # of the samples, EXTENSIBLE resolved
    channels: int
    rate: int
    sample_bytes: int  # one channel's container
    data_start: int
    data_bytes: int  # whole frames that are really there

    @property
    def frame_bytes(self) -> int:
        return self.channels * self.sample_bytes

    @property
    def num_frames(self) -> int:
        return self.data_bytes // self.frame_bytes


def is_wav(head: bytes) -> bool:
    """Whether the first 12 bytes announce a little-endian WAVE file."""
    return head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE"


def read_header(file: BinaryIO) -> WavFormat | None:
    """What the file holds; None when its codec is not PCM (ADPCM, MP3, ...). Raises AudioError."""
    end = file.seek(0, 2)
    file.seek(0)
    head = file.read(12)
    sizes = _SizeTable(streamed=head[4:8] in (b"\0\0\0\0", b"\xff\xff\xff\xff"))
    fmt: bytes | None = None
    data: tuple[int, int] | None = None
    position = 12
    while position + 8 <= end and (fmt is None or data is None):
        file.seek(position)
        name, size = struct.unpack("<4sI", file.read(8))
        start, left = position + 8, end - position - 8
        if name == b"ds64":
            sizes.read_ds64(file.read(min(size, 28)))
        elif name == b"fmt " and fmt is None:
            fmt = file.read(min(size, 40))
        elif name == b"data" and data is None:
            size = sizes.of_data(size, left)
            data = start, min(size, left)
        position = start + size + size % 2
    if fmt is None:
        raise undecodable("the WAV file has no fmt chunk")
    if data is None:
        raise undecodable("the WAV file has no data chunk")
    return _check(fmt, *data)


class _SizeTable:
    """How long the data chunk is, when its own 32 bits do not say."""

    def __init__(self, *, streamed: bool) -> None:
        self._streamed = streamed  # the outer size was never filled in
        self._ds64: int | None = None

    def read_ds64(self, content: bytes) -> None:
        if len(content) >= 16:
            self._ds64 = struct.unpack_from("<Q", content, 8)[0]

    def of_data(self, size: int, left: int) -> int:
        if size == _UNKNOWN_SIZE:
            return left if self._ds64 is None else self._ds64
        return left if size == 0 and self._streamed else size


def _check(fmt: bytes, data_start: int, data_bytes: int) -> WavFormat | None:
    if len(fmt) < 16:
        raise undecodable("the WAV file's fmt chunk is too short")
    tag, channels, rate, _, block, bits = struct.unpack_from("<HHIIHH", fmt)
    if tag == _EXTENSIBLE:
        if len(fmt) < 40:
            raise undecodable("the WAV file's extensible fmt chunk is too short")
        if fmt[26:40] != _GUID_TAIL:
            return None
        tag = struct.unpack_from("<H", fmt, 24)[0]
    if tag not in (_PCM, _FLOAT, _ALAW, _MULAW):
        return None
    if not 1 <= channels <= MAX_CHANNELS:
        raise undecodable(f"the WAV file claims {channels} channels")
    if not MIN_RATE <= rate <= MAX_RATE:
        raise undecodable(f"the WAV file claims a sample rate of {rate} Hz")
    sample_bytes = _sample_bytes(tag, channels, block, bits)
    data_bytes -= data_bytes % (channels * sample_bytes)
    return WavFormat(tag, channels, rate, sample_bytes, data_start, data_bytes)


def _sample_bytes(tag: int, channels: int, block: int, bits: int) -> int:
    """The container of one sample. A container may be wider than its valid bits, which fill it from
    the top, so that its full scale is the same. Raises AudioError when the figures contradict."""
    # Some writers leave the block size at 0; the bits alone then say.
    size = block // channels if block and block % channels == 0 else 0 if block else (bits + 7) // 8
    allowed = {_PCM: (1, 2, 3, 4), _FLOAT: (4, 8), _ALAW: (1,), _MULAW: (1,)}[tag]
    if size not in allowed or not 0 < bits <= size * 8 or (tag == _FLOAT and bits != size * 8):
        kind = {_PCM: "PCM", _FLOAT: "float", _ALAW: "A-law", _MULAW: "mu-law"}[tag]
        raise undecodable(
            f"the WAV file claims {bits}-bit {kind} samples, {channels} of them in blocks of {block} bytes"
        )
    return size


def read_samples(file: BinaryIO, wav: WavFormat) -> Iterator[Samples]:
    """Blocks of (frames, channels), full scale ±1."""
    file.seek(wav.data_start)
    left = wav.data_bytes
    while left:
        raw = file.read(min(left, BLOCK_FRAMES * wav.frame_bytes))
        left -= len(raw)
        raw = raw[: len(raw) // wav.frame_bytes * wav.frame_bytes]
        if not raw:
            return
        yield _to_float(raw, wav).reshape(-1, wav.channels)


def _to_float(raw: bytes, wav: WavFormat) -> Samples:
    if wav.tag == _ALAW:
        return ALAW.take(np.frombuffer(raw, np.uint8))
    if wav.tag == _MULAW:
        return MULAW.take(np.frombuffer(raw, np.uint8))
    if wav.tag == _FLOAT:
        values = np.frombuffer(raw, "<f4" if wav.sample_bytes == 4 else "<f8")
        finite = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
        clipped: Samples = np.clip(finite, -_SANE_MAGNITUDE, _SANE_MAGNITUDE).astype(np.float32)
        return clipped
    if wav.sample_bytes == 1:  # the only unsigned width
        return (np.frombuffer(raw, np.uint8).astype(np.float32) - 128) / np.float32(128)
    if wav.sample_bytes == 2:
        return np.frombuffer(raw, "<i2").astype(np.float32) / np.float32(2**15)
    if wav.sample_bytes == 3:
        wide: NDArray[Any] = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        raw = wide.tobytes()
    return np.frombuffer(raw, "<i4").astype(np.float32) / np.float32(2**31)


def _expand_alaw() -> Samples:
    """ITU-T G.711: sign, 3 bits of exponent, 4 of mantissa, every other bit inverted."""
    code = np.arange(256) ^ 0x55
    exponent, mantissa = (code >> 4) & 7, code & 15
    step = np.where(exponent > 0, (2 * mantissa + 33) << np.maximum(exponent - 1, 0), 2 * mantissa + 1)
    return (np.where(code & 0x80, step, -step) * 8 / 2**15).astype(np.float32)


def _expand_mulaw() -> Samples:
    """ITU-T G.711: all bits inverted, a bias of 33 (here of 4 * 33) before the exponent is taken."""
    code = np.arange(256) ^ 0xFF
    exponent, mantissa = (code >> 4) & 7, code & 15
    magnitude = ((2 * mantissa + 33) << exponent) - 33
    return (np.where(code & 0x80, -magnitude, magnitude) * 4 / 2**15).astype(np.float32)


ALAW, MULAW = _expand_alaw(), _expand_mulaw()
