"""Some hundred odd and broken files through the route: their speech arrives, or a 400 says what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from tests.api.speech.fronts import SESSIONS, SpeechServer, chat_server, error
from tests.speech import odd_audio
from tests.speech.sounds import RATE, SPEECH, tone, wav16

from stoker.speech.audio import read_audio

WAV = wav16(tone(0.5))


@pytest.fixture(scope="module")
def server() -> SpeechServer:
    """One for all of them: what a bad file did to it, the next one would see."""
    return chat_server()


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    return read_audio(SPEECH)[: 2 * RATE]


def spectra(x: np.ndarray) -> np.ndarray:
    """Magnitudes below 3 kHz, which every codec here keeps, in windows of 64 ms, one every 4 ms."""
    windows = np.lib.stride_tricks.sliding_window_view(x, 1024)[::64] * np.hanning(1024)
    return np.abs(np.fft.rfft(windows))[:, 8:192]


def likeness(heard: np.ndarray, said: np.ndarray) -> float:
    """The best correlation of spectra over shifts: codecs delay, and some turn phases."""
    wanted, other = spectra(said[3200:-3200]), spectra(heard)
    found = []
    for shift in range(len(other) - len(wanted) + 1):
        part = other[shift : shift + len(wanted)]
        found.append((wanted * part).sum() / np.linalg.norm(wanted) / np.linalg.norm(part))
    return float(max(found))


async def heard_of(server: SpeechServer, file: bytes) -> np.ndarray:
    """The samples that reached the model."""
    response = await server.transcribe(file)
    assert response.status_code == 200, response.text
    heard = np.concatenate(server.model.takes[-1].fed)
    assert np.isfinite(heard).all()
    assert response.json()["mlx_bun"]["duration"] == pytest.approx(len(heard) / RATE, abs=1e-3)
    return heard


@pytest.mark.parametrize("name", odd_audio.SPEECH)
async def test_speech_is_heard(server: SpeechServer, speech: np.ndarray, name: str) -> None:
    heard = await heard_of(server, odd_audio.SPEECH[name](speech))
    assert len(heard) / RATE == pytest.approx(2.0, abs=0.35)
    assert likeness(heard, speech) > 0.97


@pytest.mark.parametrize("name", odd_audio.HURT)
async def test_what_is_left_is_heard(server: SpeechServer, speech: np.ndarray, name: str) -> None:
    heard = await heard_of(server, odd_audio.HURT[name](speech))
    assert 1.5 < len(heard) / RATE < 2.35
    assert likeness(heard[:RATE], speech[:RATE]) > 0.97


@pytest.mark.parametrize("name", odd_audio.BROKEN)
async def test_what_holds_no_speech_is_refused(server: SpeechServer, name: str) -> None:
    num_takes = len(server.model.takes)
    message = error(await server.transcribe(odd_audio.BROKEN[name]))
    assert message.startswith(("undecodable audio: ", "audio is shorter than 0.1 s", "empty audio upload"))
    assert "Errno" not in message
    assert len(server.model.takes) == num_takes
    assert (await server.transcribe(WAV)).status_code == 200


async def test_a_session_refuses_the_same_and_goes_on(server: SpeechServer) -> None:
    async with server.client() as client:
        id = (await client.post(SESSIONS)).json()["id"]
        for name, data in odd_audio.BROKEN.items():
            if (
                name != "wav, empty" and "50 ms" not in name and "20 ms" not in name
            ):  # short chunks are no fault
                response = await client.post(f"{SESSIONS}/{id}/audio", content=data)
                assert response.status_code == 400, name
        finished = await client.post(f"{SESSIONS}/{id}/finish")
    assert finished.json()["text"] == ""


def test_there_are_enough() -> None:
    assert len(odd_audio.SPEECH) + len(odd_audio.BROKEN) >= 60
