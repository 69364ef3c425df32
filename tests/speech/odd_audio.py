"""Files that people really send: odd ones that hold speech all the same, and broken ones that hold none.

Each is made on the spot from one stretch of speech, so that a test can compare what was heard with it.
"""

from __future__ import annotations

import gzip
import io
import random
import struct
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from tests.speech.sounds import RATE, chunk, encoded, extensible, fmt, riff, tone, wav16

Samples = NDArray[np.float32]
Made = Callable[[Samples], bytes]


def pcm(x: Samples, bits: int) -> bytes:
    top = 2 ** (bits - 1)
    values = np.clip(np.round(x.astype(np.float64) * top), -top, top - 1).astype("<i8")
    if bits == 8:
        return (values + 128).astype(np.uint8).tobytes()
    return values.view(np.uint8).reshape(-1, 8)[:, : bits // 8].tobytes()


def wav(x: Samples, bits: int = 16, rate: int = RATE, channels: int = 1) -> bytes:
    return riff(chunk(b"fmt ", fmt(1, channels, rate, bits)), chunk(b"data", pcm(x, bits)))


def wav_float(x: NDArray[np.floating], rate: int = RATE, bits: int = 32) -> bytes:
    return riff(chunk(b"fmt ", fmt(3, 1, rate, bits)), chunk(b"data", x.astype(f"<f{bits // 8}").tobytes()))


def at_rate(x: Samples, rate: int) -> Samples:
    """By FFmpeg's resampler, through a file."""
    data = encoded(x, "wav", "pcm_s16le", rate)
    start = data.index(b"data") + 8
    return np.frombuffer(data[start : start + (len(data) - start) // 2 * 2], "<i2").astype(np.float32) / 32768


def companded(x: Samples, codec: str) -> bytes:
    return encoded(x, "wav", codec, 8_000)


def channels(x: Samples, count: int) -> bytes:
    return wav(np.repeat(x, count), channels=count)


def one_of_two(x: Samples) -> bytes:
    return wav(np.stack([x, np.zeros_like(x)], 1).reshape(-1), channels=2)


def damaged(data: bytes, at: float, size: int) -> bytes:
    start = int(len(data) * at)
    return data[:start] + random.Random(1).randbytes(size) + data[start + size :]


def id3(size: int) -> bytes:
    return b"ID3\4\0\0" + bytes(size >> shift & 127 for shift in (21, 14, 7, 0)) + bytes(size)


def mp3(x: Samples) -> bytes:
    return encoded(x, "mp3", "libmp3lame", 44_100)


def with_picture(x: Samples) -> bytes:
    """MP4 with a video track before its sound."""
    import av

    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        video = output.add_stream("mpeg4", rate=10)
        video.width = video.height = 16
        video.pix_fmt = "yuv420p"
        sound = output.add_stream("aac", rate=44_100)
        sound.layout = "mono"
        for _ in range(20):
            output.mux(video.encode(av.VideoFrame(16, 16, "yuv420p")))
        output.mux(video.encode(None))
        frame = av.AudioFrame.from_ndarray(x[None], format="flt", layout="mono")
        frame.sample_rate = RATE
        resampler = av.AudioResampler(format="fltp", layout="mono", rate=44_100)
        for piece in (*resampler.resample(frame), *resampler.resample(None)):
            output.mux(sound.encode(piece))
        output.mux(sound.encode(None))
    return file.getvalue()


def picture_only() -> bytes:
    import av

    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        video = output.add_stream("mpeg4", rate=10)
        video.width = video.height = 16
        video.pix_fmt = "yuv420p"
        output.mux(video.encode(av.VideoFrame(16, 16, "yuv420p")))
        output.mux(video.encode(None))
    return file.getvalue()


def rf64(x: Samples) -> bytes:
    data = pcm(x, 16)
    sizes = struct.pack("<QQQI", 0, len(data), len(x), 0)
    parts = chunk(b"ds64", sizes), chunk(b"fmt ", fmt(1, 1, RATE, 16)), chunk(b"data", data, 0xFFFFFFFF)
    return riff(*parts, name=b"RF64", size=0xFFFFFFFF)


def with_nan(x: Samples) -> bytes:
    x = x.copy()
    x[::1000] = np.nan
    return wav_float(x)


FORM = chunk(b"fmt ", fmt(1, 1, RATE, 16))
LIST = chunk(b"LIST", b"INFOodd")

# What is made of the speech must sound like it.
# Files that lost something behind their first second.
HURT: dict[str, Callable[[Samples], bytes]] = {
    "mp3, damaged": lambda x: damaged(mp3(x), 0.7, 500),
    "mp3, cut": lambda x: mp3(x)[:-3000],
}

SPEECH: dict[str, Made] = {
    "wav, 8 bits": lambda x: wav(x, 8),
    "wav, 16 bits": wav,
    "wav, 24 bits": lambda x: wav(x, 24),
    "wav, 32 bits": lambda x: wav(x, 32),
    "wav, float": wav_float,
    "wav, double": lambda x: wav_float(x, bits=64),
    "wav, A-law at 8 kHz": lambda x: companded(x, "pcm_alaw"),
    "wav, mu-law at 8 kHz": lambda x: companded(x, "pcm_mulaw"),
    "wav, ADPCM": lambda x: encoded(x, "wav", "adpcm_ima_wav", 16_000),
    "wav, extensible": lambda x: riff(
        chunk(b"fmt ", extensible(1, 1, RATE, 24, 24)), chunk(b"data", pcm(x, 24))
    ),
    "wav, extensible float": lambda x: riff(
        chunk(b"fmt ", extensible(3, 1, RATE, 32, 32)), chunk(b"data", x.astype("<f4").tobytes())
    ),
    "wav, 24 bits in 32": lambda x: riff(
        chunk(b"fmt ", fmt(1, 1, RATE, 24, block=4)), chunk(b"data", pcm(x, 32))
    ),
    "wav, stereo": lambda x: channels(x, 2),
    "wav, six channels": lambda x: channels(x, 6),
    "wav, one side silent": one_of_two,
    "wav, 8 kHz": lambda x: wav(at_rate(x, 8_000), rate=8_000),
    "wav, 11,025 Hz": lambda x: wav(at_rate(x, 11_025), rate=11_025),
    "wav, 44.1 kHz": lambda x: wav(at_rate(x, 44_100), rate=44_100),
    "wav, 96 kHz": lambda x: wav(at_rate(x, 96_000), rate=96_000),
    "wav, chunks before the sound": lambda x: riff(LIST, FORM, LIST, chunk(b"data", pcm(x, 16))),
    "wav, chunks after the sound": lambda x: riff(FORM, chunk(b"data", pcm(x, 16)), LIST, LIST),
    "wav, sizes 0": lambda x: riff(FORM, chunk(b"data", pcm(x, 16), 0), size=0),
    "wav, sizes of a pipe": lambda x: riff(FORM, chunk(b"data", pcm(x, 16), 2**32 - 1), size=2**32 - 1),
    "wav, RIFF size too small": lambda x: riff(FORM, chunk(b"data", pcm(x, 16)), size=36),
    "wav, cut": lambda x: wav(x)[:-2001],
    "wav, text behind it": lambda x: wav(x) + b"This text has no business here." * 9,
    "wav, RF64": rf64,
    "wav, not a number now and then": with_nan,
    "wav, far too loud": lambda x: wav_float(x * 50),
    "wav, hardly to be heard": lambda x: wav_float(x * 1e-3),
    "wav, off centre": lambda x: wav(x / 2 + 0.25),
    "mp3": mp3,
    "mp3 behind a large tag": lambda x: id3(200_000) + mp3(x),
    "mp3 behind rubbish": lambda x: random.Random(3).randbytes(3000) + mp3(x),
    "mp3, 22 kHz": lambda x: encoded(x, "mp3", "libmp3lame", 22_050),
    "m4a": lambda x: encoded(x, "mp4", "aac", 44_100),
    "m4a, index first": lambda x: encoded(x, "mp4", "aac", 44_100, movflags="faststart"),
    "m4a, fragmented": lambda x: encoded(
        x, "mp4", "aac", 48_000, movflags="frag_keyframe+empty_moov+default_base_moof"
    ),
    "m4a, lossless": lambda x: encoded(x, "mp4", "alac", 44_100),
    "mp4 with pictures": with_picture,
    "mov": lambda x: encoded(x, "mov", "pcm_s16le", 48_000),
    "aac without a container": lambda x: encoded(x, "adts", "aac", 44_100),
    "webm, Opus": lambda x: encoded(x, "webm", "libopus"),
    "webm, Opus, as it is recorded": lambda x: encoded(x, "webm", "libopus", live="1"),
    "webm, cut": lambda x: encoded(x, "webm", "libopus", live="1")[:-2000],
    "matroska, AAC": lambda x: encoded(x, "matroska", "aac", 44_100),
    "ogg, Opus": lambda x: encoded(x, "ogg", "libopus"),
    "ogg, two recordings in a row": lambda x: (
        encoded(x[: len(x) // 2], "ogg", "libopus") + encoded(x[len(x) // 2 :], "ogg", "libopus")
    ),
    "flac": lambda x: encoded(x, "flac", "flac", 22_050),
    "flac behind a tag": lambda x: id3(1000) + encoded(x, "flac", "flac", 22_050),
    "aiff": lambda x: encoded(x, "aiff", "pcm_s16be", 22_050),
    "caf": lambda x: encoded(x, "caf", "pcm_s16le", 16_000),
    "au": lambda x: encoded(x, "au", "pcm_s16be", 16_000),
    "w64": lambda x: encoded(x, "w64", "pcm_s16le", 16_000),
    "mpeg transport stream": lambda x: encoded(x, "mpegts", "aac", 44_100),
    "avi": lambda x: encoded(x, "avi", "pcm_s16le", 44_100),
}

_SOUND = chunk(b"data", pcm(tone(0.5), 16))

BROKEN: dict[str, bytes] = {
    "nothing": b"",
    "one byte": b"R",
    "zeros": bytes(50_000),
    "random": random.Random(2).randbytes(20_000),
    "text": b"This is a text file that somebody named talk.wav.\n" * 20,
    "text in UTF-16": "Ein Text, kein Ton. ".encode("utf-16") * 50,
    "html": b"<!doctype html><html><body>404</body></html>",
    "json": b'{"error": "not found"}' * 9,
    "svg": b'<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9v9z"/></svg>',
    "subtitles": b"1\n00:00:00,000 --> 00:00:01,500\nHello.\n\n" * 5,
    "lyrics": b"[00:01.00]Hello.\n[00:02.00]There.\n",
    "png": b"\x89PNG\r\n\x1a\n" + bytes(500),
    "jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(500),
    "pdf": b"%PDF-1.7\n" + bytes(400),
    "zip": b"PK\3\4" + bytes(400),
    "gzip of a wav": gzip.compress(wav16(tone(0.5))),
    "midi": b"MThd\0\0\0\6\0\0\0\1\0\x60MTrk\0\0\0\4\0\xff\x2f\0",
    "playlist": b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n",
    "playlist of files": b"ffconcat version 1.0\nfile '/etc/passwd'\n",
    "description of a session": b"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nm=audio 9 RTP/AVP 0\n",
    "manifest": b'<?xml version="1.0"?><MPD><Period><BaseURL>file:///etc/passwd</BaseURL></Period></MPD>',
    "pictures only": picture_only(),
    "mp4 without its index": encoded(tone(0.5), "mp4", "aac", 44_100)[:3000],
    "webm, only the beginning": encoded(tone(0.5), "webm", "libopus")[:100],
    "ogg without streams": b"OggS" + bytes(300),
    "flac without sound": b"fLaC\x80\0\0\x22" + bytes(34),
    "a tag alone": id3(200),
    "wav, 12 bytes": riff()[:12],
    "wav, no format": riff(_SOUND),
    "wav, no sound": riff(FORM),
    "wav, empty": riff(FORM, chunk(b"data", b"")),
    "wav, 50 ms": wav16(tone(0.05)),
    "wav, no channels": riff(chunk(b"fmt ", fmt(1, 0, RATE, 16, block=2)), _SOUND),
    "wav, 65,535 channels": riff(chunk(b"fmt ", fmt(1, 65535, RATE, 8, block=65535)), _SOUND),
    "wav, no rate": riff(chunk(b"fmt ", fmt(1, 1, 0, 16)), _SOUND),
    "wav, 4 GHz": riff(chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, 4_000_000_000, 0, 2, 16)), _SOUND),
    "wav, no bits": riff(chunk(b"fmt ", fmt(1, 1, RATE, 0, block=2)), _SOUND),
    "wav, unknown codec": riff(chunk(b"fmt ", fmt(0x1234, 1, RATE, 16)), _SOUND),
    "wav, format cut": riff(chunk(b"fmt ", fmt(1, 1, RATE, 16)[:10]), _SOUND),
    "mp3, 20 ms": mp3(tone(0.02))[:200],
}
