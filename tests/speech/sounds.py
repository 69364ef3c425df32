"""Sounds and files made on the spot. WAV headers are written field by field, so that they can be wrong."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE = 16_000
SPEECH = Path(__file__).parent / "jfk.flac"  # 11 s, US inaugural address of 1961, public domain


def tone(seconds: float, rate: int = RATE, hz: float = 440.0, level: float = 0.5) -> NDArray[np.float32]:
    at = np.arange(int(seconds * rate)) / rate
    return (level * np.sin(2 * np.pi * hz * at)).astype(np.float32)


def chunk(name: bytes, content: bytes, size: int | None = None) -> bytes:
    stated = len(content) if size is None else size
    return name + struct.pack("<I", stated) + content + b"\0" * (len(content) % 2)


def fmt(
    tag: int, channels: int, rate: int, bits: int, *, block: int | None = None, extra: bytes = b""
) -> bytes:
    block = channels * ((bits + 7) // 8) if block is None else block
    return struct.pack("<HHIIHH", tag, channels, rate, rate * block, block, bits) + extra


def extensible(tag: int, channels: int, rate: int, bits: int, valid: int, tail: bytes | None = None) -> bytes:
    tail = bytes.fromhex("000000001000800000aa00389b71") if tail is None else tail
    extra = struct.pack("<HHIH", 22, valid, 0, tag) + tail
    return fmt(0xFFFE, channels, rate, bits, extra=extra)


def riff(*chunks: bytes, name: bytes = b"RIFF", size: int | None = None) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return name + struct.pack("<I", len(body) if size is None else size) + body


def wav16(samples: NDArray[Any], rate: int = RATE, channels: int = 1) -> bytes:
    data = np.clip(np.asarray(samples) * 32767, -32768, 32767).astype("<i2").tobytes()
    return riff(chunk(b"fmt ", fmt(1, channels, rate, 16)), chunk(b"data", data))


def encoded(
    samples: NDArray[np.float32], container: str, codec: str, rate: int = 48_000, **options: str
) -> bytes:
    """`samples` (16 kHz mono) in another container."""
    with tempfile.NamedTemporaryFile() as file:  # some options read again what was written
        _write(samples, file.name, container, codec, rate, options)
        return Path(file.name).read_bytes()


def _write(
    samples: NDArray[np.float32], path: str, container: str, codec: str, rate: int, options: dict[str, str]
) -> None:
    import av

    with av.open(path, "w", format=container, options=options) as output:
        stream = output.add_stream(codec, rate=rate)
        stream.layout = "mono"
        formats = stream.codec.audio_formats
        assert formats
        resampler = av.AudioResampler(format=formats[0].name, layout="mono", rate=rate)
        frame = av.AudioFrame.from_ndarray(samples[None], format="flt", layout="mono")
        frame.sample_rate = RATE
        for piece in (*resampler.resample(frame), *resampler.resample(None)):
            output.mux(stream.encode(piece))
        output.mux(stream.encode(None))
