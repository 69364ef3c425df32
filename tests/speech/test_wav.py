"""Every PCM width, float and companded, against values worked out here; damaged headers are refused."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from tests.speech.sounds import chunk, extensible, fmt, riff, tone

from stoker.speech.audio import read_audio
from stoker.speech.errors import AudioError
from stoker.speech.wav import ALAW, MULAW, read_header, read_samples

X = tone(0.25, level=0.8)
LOUD = np.array([0.0, 0.5, -0.5, 0.999, -1.0, 0.25], np.float32)


def samples_of(data: bytes) -> np.ndarray:
    file = io.BytesIO(data)
    header = read_header(file)
    assert header is not None
    blocks = list(read_samples(file, header))
    return np.concatenate(blocks) if blocks else np.empty((0, header.channels), np.float32)


def pcm(values: np.ndarray, bits: int) -> bytes:
    scaled = np.clip(np.round(values * 2.0 ** (bits - 1)), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1).astype(
        "<i8"
    )
    if bits == 8:
        return (scaled + 128).astype(np.uint8).tobytes()
    size = bits // 8
    return b"".join(int(value).to_bytes(size, "little", signed=True) for value in scaled)


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
def test_integer_widths(bits: int) -> None:
    data = riff(chunk(b"fmt ", fmt(1, 1, 16_000, bits)), chunk(b"data", pcm(LOUD, bits)))
    assert samples_of(data)[:, 0] == pytest.approx(LOUD, abs=1.01 / 2 ** (bits - 1))


@pytest.mark.parametrize(("bits", "kind"), [(32, "<f4"), (64, "<f8")])
def test_float_widths(bits: int, kind: str) -> None:
    data = riff(chunk(b"fmt ", fmt(3, 1, 16_000, bits)), chunk(b"data", LOUD.astype(kind).tobytes()))
    assert np.array_equal(samples_of(data)[:, 0], LOUD)


def test_floats_that_are_no_numbers_are_silence() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 0.5], "<f4")
    data = riff(chunk(b"fmt ", fmt(3, 1, 16_000, 32)), chunk(b"data", values.tobytes()))
    assert list(samples_of(data)[:, 0]) == [0, 0, 0, 0.5]


def test_companding_by_ffmpeg() -> None:
    import av

    for codec, table in (("pcm_alaw", ALAW), ("pcm_mulaw", MULAW)):
        decoder = av.CodecContext.create(codec, "r")
        decoder.sample_rate, decoder.layout = 8000, "mono"
        (frame,) = decoder.decode(av.Packet(bytes(range(256))))
        assert np.array_equal(frame.to_ndarray()[0].astype(np.float32) / 32768, table), codec


@pytest.mark.parametrize("tag", [6, 7])
def test_companded_files(tag: int) -> None:
    data = riff(chunk(b"fmt ", fmt(tag, 2, 8_000, 8)), chunk(b"data", bytes(range(256))))
    table = ALAW if tag == 6 else MULAW
    assert np.array_equal(samples_of(data).reshape(-1), table)


def test_extensible() -> None:
    data = riff(chunk(b"fmt ", extensible(1, 1, 16_000, 24, 20)), chunk(b"data", pcm(LOUD, 24)))
    assert samples_of(data)[:, 0] == pytest.approx(LOUD, abs=1e-6)
    data = riff(chunk(b"fmt ", extensible(3, 1, 16_000, 32, 32)), chunk(b"data", LOUD.tobytes()))
    assert np.array_equal(samples_of(data)[:, 0], LOUD)


def test_24_bits_in_32_bit_containers() -> None:
    data = riff(chunk(b"fmt ", fmt(1, 1, 16_000, 24, block=4)), chunk(b"data", pcm(LOUD, 32)))
    assert samples_of(data)[:, 0] == pytest.approx(LOUD, abs=1e-6)


def test_channels_are_averaged() -> None:
    both = np.stack([X, -X / 2], axis=1).reshape(-1)
    data = riff(chunk(b"fmt ", fmt(3, 2, 16_000, 32)), chunk(b"data", both.astype("<f4").tobytes()))
    assert read_audio(data) == pytest.approx(X / 4, abs=1e-6)


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000, 96_000, 192_000])
def test_rates(rate: int) -> None:
    data = riff(chunk(b"fmt ", fmt(3, 1, rate, 32)), chunk(b"data", tone(1.0, rate).astype("<f4").tobytes()))
    found = read_audio(data)
    assert len(found) == pytest.approx(16_000, abs=2)
    middle = slice(1_000, 15_000)  # the resampler's ends are its own
    assert found[middle] == pytest.approx(tone(1.0)[middle], abs=2e-3)


def test_other_chunks_anywhere() -> None:
    form, sound = chunk(b"fmt ", fmt(3, 1, 16_000, 32)), chunk(b"data", X.tobytes())
    odd, even = chunk(b"LIST", b"INFOx"), chunk(b"bext", bytes(602))
    for chunks in ([odd, form, sound], [form, odd, even, sound, odd], [even, sound, odd, form]):
        assert np.array_equal(read_audio(riff(*chunks)), X)


def test_a_cut_file_keeps_what_is_there() -> None:
    whole = riff(chunk(b"fmt ", fmt(3, 1, 16_000, 32)), chunk(b"data", X.tobytes()))
    assert np.array_equal(read_audio(whole[: -(4 * 1000 + 3)]), X[:-1001])


@pytest.mark.parametrize("stated", [0xFFFFFFFF, 0])
def test_sizes_that_were_never_written(stated: int) -> None:
    """As programs leave them that write to a pipe."""
    data = riff(chunk(b"fmt ", fmt(3, 1, 16_000, 32)), chunk(b"data", X.tobytes(), stated), size=stated)
    assert np.array_equal(read_audio(data), X)


def test_rf64() -> None:
    sizes = struct.pack("<QQQI", 0, X.nbytes, len(X), 0)
    form = chunk(b"fmt ", fmt(3, 1, 16_000, 32))
    sound = chunk(b"data", X.tobytes(), 0xFFFFFFFF)
    data = riff(chunk(b"ds64", sizes), form, sound + b"LIST\4\0\0\0abcd", name=b"RF64", size=0xFFFFFFFF)
    assert np.array_equal(read_audio(data), X)


SOUND = chunk(b"data", X.tobytes())
NONSENSE = {
    "no fmt": riff(SOUND),
    "no data": riff(chunk(b"fmt ", fmt(1, 1, 16_000, 16))),
    "short fmt": riff(chunk(b"fmt ", fmt(1, 1, 16_000, 16)[:14]), SOUND),
    "short extensible": riff(chunk(b"fmt ", extensible(1, 1, 16_000, 16, 16)[:30]), SOUND),
    "no channels": riff(chunk(b"fmt ", fmt(1, 0, 16_000, 16, block=2)), SOUND),
    "65535 channels": riff(chunk(b"fmt ", fmt(1, 65535, 16_000, 8, block=65535)), SOUND),
    "rate 0": riff(chunk(b"fmt ", fmt(1, 1, 0, 16)), SOUND),
    "rate 1": riff(chunk(b"fmt ", fmt(1, 1, 1, 16)), SOUND),
    "rate 4e9": riff(chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, 4_000_000_000, 0, 2, 16)), SOUND),
    "0 bits": riff(chunk(b"fmt ", fmt(1, 1, 16_000, 0, block=2)), SOUND),
    "40 bits": riff(chunk(b"fmt ", fmt(1, 1, 16_000, 40)), SOUND),
    "16 bits in one byte": riff(chunk(b"fmt ", fmt(1, 1, 16_000, 16, block=1)), SOUND),
    "16-bit float": riff(chunk(b"fmt ", fmt(3, 1, 16_000, 16)), SOUND),
    "block of 3 for 2 channels": riff(chunk(b"fmt ", fmt(1, 2, 16_000, 16, block=3)), SOUND),
    "16-bit mu-law": riff(chunk(b"fmt ", fmt(7, 1, 8_000, 16)), SOUND),
    "only a header": riff(chunk(b"fmt ", fmt(1, 1, 16_000, 16)), chunk(b"data", b"")),
    "50 ms": riff(chunk(b"fmt ", fmt(3, 1, 16_000, 32)), chunk(b"data", X[:800].tobytes())),
    "12 bytes": riff()[:12],
    "unknown codec": riff(chunk(b"fmt ", fmt(0x1234, 1, 16_000, 16)), SOUND),
    "foreign guid": riff(chunk(b"fmt ", extensible(1, 1, 16_000, 16, 16, bytes(14))), SOUND),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused(name: str) -> None:
    with pytest.raises(AudioError) as refused:
        read_audio(NONSENSE[name])
    assert refused.value.message.startswith(("undecodable audio: ", "audio is shorter than 0.1 s"))
