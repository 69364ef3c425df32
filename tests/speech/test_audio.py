"""The containers people send, and bytes that are none. What a file is, is decided by its bytes."""

from __future__ import annotations

import io
import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from tests.speech.sounds import RATE, SPEECH, encoded, tone, wav16

from stoker.speech import audio
from stoker.speech.audio import decode, gather, read_audio
from stoker.speech.errors import AudioError

CONTAINERS = [
    ("mp3", "libmp3lame", 44_100),
    ("ogg", "libopus", 48_000),
    ("webm", "libopus", 48_000),
    ("matroska", "aac", 44_100),
    ("flac", "flac", 22_050),
    ("mp4", "aac", 44_100),
    ("mov", "pcm_s16le", 48_000),
    ("adts", "aac", 44_100),
    ("aiff", "pcm_s16be", 22_050),
    ("caf", "pcm_s16le", 16_000),
    ("au", "pcm_s16be", 16_000),
    ("w64", "pcm_s16le", 16_000),
    ("wav", "adpcm_ima_wav", 16_000),
]


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    return read_audio(SPEECH)[: 3 * RATE]


def likeness(one: np.ndarray, other: np.ndarray) -> float:
    """The largest correlation over all shifts: encoders begin with a little silence."""
    size = len(one) + len(other)
    spectrum = np.fft.rfft(one, size) * np.conj(np.fft.rfft(other, size))
    return float(np.fft.irfft(spectrum, size).max() / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.mark.parametrize(("container", "codec", "rate"), CONTAINERS)
def test_containers(speech: np.ndarray, container: str, codec: str, rate: int) -> None:
    found = read_audio(encoded(speech, container, codec, rate))
    assert len(found) == pytest.approx(len(speech), abs=0.07 * RATE)
    assert likeness(found, speech) > 0.97


def test_browsers_recordings(speech: np.ndarray) -> None:
    """WebM without a duration, as a stream is written, and fragmented MP4."""
    live = encoded(speech, "webm", "libopus", live="1")
    fragmented = encoded(speech, "mp4", "aac", 48_000, movflags="frag_keyframe+empty_moov+default_base_moof")
    for data in (live, fragmented):
        assert len(read_audio(data)) == pytest.approx(len(speech), abs=0.07 * RATE)


def test_a_cut_file_keeps_its_beginning(speech: np.ndarray) -> None:
    data = encoded(speech, "mp3", "libmp3lame", 44_100)
    found = read_audio(data[: len(data) // 2])
    assert 1.2 * RATE < len(found) < 1.8 * RATE


def test_damaged_packets_are_skipped(speech: np.ndarray) -> None:
    data = bytearray(encoded(speech, "mp3", "libmp3lame", 44_100))
    noise = random.Random(1)
    data[8000:8600] = noise.randbytes(600)
    assert len(read_audio(bytes(data))) > 2 * RATE


def test_files_and_paths_are_the_same(tmp_path: Path) -> None:
    data = wav16(tone(0.5))
    (tmp_path / "talk.txt").write_bytes(data)
    from_path = read_audio(tmp_path / "talk.txt")
    assert np.array_equal(from_path, read_audio(data))
    assert np.array_equal(from_path, read_audio(io.BytesIO(data)))


REFUSED = {
    "text": b"This is a text file that somebody named talk.wav.\n" * 20,
    "nothing": b"",
    "zeros": bytes(50_000),
    "html": b"<!doctype html><html><body>404</body></html>",
    "json": b'{"error": "not found"}' * 9,
    "png": b"\x89PNG\r\n\x1a\n" + bytes(500),
    "ogg without streams": b"OggS" + bytes(300),
    "id3 only": b"ID3\4\0\0\0\0\0\0" + bytes(200),
    "random": random.Random(2).randbytes(20_000),
    "zip": b"PK\3\4" + bytes(400),
    "pdf": b"%PDF-1.7\n" + bytes(400),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_audio(name: str) -> None:
    with pytest.raises(AudioError, match=r"undecodable audio: .|shorter than 0\.1 s"):
        read_audio(REFUSED[name])


def test_playlists_lead_nowhere(tmp_path: Path) -> None:
    """A playlist may name any file of the server, or an address."""
    secret = tmp_path / "secret.wav"
    secret.write_bytes(wav16(tone(1.0)))
    for text in (
        f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile://{secret}\n#EXT-X-ENDLIST\n",
        f"ffconcat version 1.0\nfile '{secret}'\n",
        f"[playlist]\nFile1={secret}\n",
    ):
        with pytest.raises(AudioError):
            read_audio(text.encode())


def test_a_video_without_sound_says_so() -> None:
    import av

    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as output:
        stream = output.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 16
        stream.pix_fmt = "yuv420p"
        for _ in range(5):
            output.mux(stream.encode(av.VideoFrame(16, 16, "yuv420p")))
        output.mux(stream.encode(None))
    with pytest.raises(AudioError, match=r"the mov,mp4.* file has no audio track"):
        read_audio(file.getvalue())


def test_too_short() -> None:
    with pytest.raises(AudioError, match=r"^audio is shorter than 0\.1 s$"):
        read_audio(wav16(tone(0.05)))
    assert len(read_audio(wav16(tone(0.1)))) == 1600


def test_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio, "MAX_DURATION_S", 0.5)
    with pytest.raises(AudioError, match="longer than"):
        gather(decode(wav16(tone(1.0))))


def test_a_long_recording_is_in_memory_once(tmp_path: Path) -> None:
    """20 minutes of 16-bit WAV: 77 MB as float32."""
    path = tmp_path / "long.wav"
    minute = tone(60.0)
    data = wav16(np.tile(minute, 20))
    path.write_bytes(data)
    del data
    tracemalloc.start()
    try:
        samples = read_audio(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(samples) == 20 * 60 * RATE
    assert peak < 1.5 * samples.nbytes


def test_decoding_can_be_stopped() -> None:
    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        read_audio(wav16(tone(60.0)), stop)
