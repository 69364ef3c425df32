"""The routes of streaming takes."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import httpx
import numpy as np
import pytest
from tests.api.speech.fronts import SESSIONS, SpeechServer, chat_server, error
from tests.speech.fakes import FakeWhisper
from tests.speech.sounds import RATE, SPEECH, encoded, tone, wav16

from stoker.speech.audio import read_audio

PCM = {"content-type": "audio/pcm;rate=16000"}


@pytest.fixture
def server() -> SpeechServer:
    return chat_server()


async def create(client: httpx.AsyncClient, **body: Any) -> str:
    response = await client.post(SESSIONS, json=body)
    assert response.status_code == 200, response.text
    return response.json()["id"]


async def send(
    client: httpx.AsyncClient, id: str, samples: np.ndarray, headers: dict[str, str] = PCM
) -> httpx.Response:
    return await client.post(
        f"{SESSIONS}/{id}/audio", content=samples.astype("<f4").tobytes(), headers=headers
    )


async def test_a_take_from_beginning_to_end(server: SpeechServer) -> None:
    async with server.client() as client:
        created = (await client.post(SESSIONS)).json()
        assert set(created) == {"id", "model", "vocabulary"}
        assert (created["model"], created["vocabulary"]) == ("tiny/whisper", None)
        id = str(uuid.UUID(created["id"]))
        assert server.service.stats().residency.resident
        for number in range(124):
            receipt = (await send(client, id, tone(0.5))).json()
            assert receipt["samples"] == (number + 1) * RATE // 2
            assert receipt["duration"] == (number + 1) / 2
            assert receipt["speech"] is False
        while len(receipt["segments"]) < 2:
            await asyncio.sleep(0.01)
            receipt = (await send(client, id, tone(0.0001))).json()
        assert receipt["segments"][0]["text"] == " Hello there."
        finished = await client.post(f"{SESSIONS}/{id}/finish")
        assert finished.json()["text"] == "Hello there. Hello there. Hello there."
        assert finished.json()["mlx_bun"]["timings"]["load_ms"] > 0
        assert finished.headers["x-mlx-bun-language"] == "en"
        assert len(server.front.sessions) == 0
        for path, method in (("audio", "POST"), ("finish", "POST"), ("", "DELETE")):
            again = await client.request(
                method, f"{SESSIONS}/{id}/{path}".rstrip("/"), content=b"1234", headers=PCM
            )
            assert error(again, 409) == "session is closed"


async def test_verbose_json_is_honoured(server: SpeechServer) -> None:
    async with server.client() as client:
        id = await create(
            client, response_format="verbose_json", task="translate", timestamp_granularities=["word"]
        )
        await send(client, id, tone(2.0))
        body = (await client.post(f"{SESSIONS}/{id}/finish")).json()
    assert (body["task"], body["duration"]) == ("translate", 2.0)
    assert body["segments"][0]["words"] == body["words"]


async def test_options_and_vocabulary(server: SpeechServer) -> None:
    async with server.client() as client:
        response = await client.post(SESSIONS, json={"language": "EN", "vocabulary": ["Ada"], "beam_size": 3})
        assert response.json()["vocabulary"]["included"] == ["Ada"]
    options = server.model.takes[0].options
    assert (options.language, options.beam_size) == ("en", 3)


async def test_containers_as_chunks(server: SpeechServer) -> None:
    async with server.client() as client:
        id = await create(client)
        path = f"{SESSIONS}/{id}/audio"
        first = await client.post(path, content=wav16(tone(1.0)), headers={"content-type": "audio/wav"})
        assert first.json()["samples"] == RATE
        ogg = encoded(tone(1.0), "ogg", "libopus")
        second = await client.post(path, content=ogg)
        assert second.json()["samples"] == pytest.approx(2 * RATE, abs=400)
        bad = await client.post(path, content=b"no audio", headers={"content-type": "audio/wav"})
        assert error(bad).startswith("undecodable audio: ")
        assert (await send(client, id, tone(1.0))).status_code == 200  # the session lives on


@pytest.mark.parametrize(
    "kind", ["audio/pcm", "audio/pcm; rate=16000", "audio/l32;rate=16000;channels=1", "application/x-float32"]
)
async def test_raw_chunks(server: SpeechServer, kind: str) -> None:
    sound = tone(0.5)
    async with server.client() as client:
        id = await create(client)
        await send(client, id, sound, {"content-type": kind})
        await client.post(f"{SESSIONS}/{id}/finish")
    assert np.array_equal(np.concatenate(server.model.takes[0].fed), sound)


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"", "audio/pcm", "empty audio chunk"),
        (b"12345", "audio/pcm", "float32 PCM chunk length must be a multiple of 4"),
        (b"1234", "audio/pcm;rate=44100", "float32 PCM chunks must be 16 kHz mono"),
        (b"1234", "audio/pcm;channels=2", "float32 PCM chunks must be 16 kHz mono"),
    ],
)
async def test_bad_chunks(server: SpeechServer, content: bytes, kind: str, message: str) -> None:
    async with server.client() as client:
        id = await create(client)
        response = await client.post(
            f"{SESSIONS}/{id}/audio", content=content, headers={"content-type": kind}
        )
        assert error(response) == message
        assert (await send(client, id, tone(0.1))).json()["samples"] == 1600


async def test_samples_that_are_no_numbers(server: SpeechServer) -> None:
    async with server.client() as client:
        id = await create(client)
        await send(client, id, np.full(1600, np.nan, np.float32))
        await client.post(f"{SESSIONS}/{id}/finish")
    assert not np.concatenate(server.model.takes[0].fed).any()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"response_format": "srt"}, "sessions return json or verbose_json"),
        ({"temperature": 2}, "temperature must be in [0, 1]"),
        ({"task": "sing"}, "task must be transcribe or translate"),
        ({"language": "xx"}, "unsupported language: xx"),
    ],
)
async def test_bad_options_open_nothing(server: SpeechServer, body: dict[str, Any], message: str) -> None:
    assert error(await server.post(SESSIONS, json=body)).startswith(message)
    assert error(await server.post(SESSIONS, content=b"{")).startswith("invalid JSON body: ")
    assert len(server.front.sessions) == 0
    assert not server.service.stats().residency.resident


async def test_unknown_ids(server: SpeechServer) -> None:
    async with server.client() as client:
        for method, path in (("POST", "x/audio"), ("POST", "x/finish"), ("DELETE", "x")):
            response = await client.request(method, f"{SESSIONS}/{path}", content=b"1234", headers=PCM)
            assert error(response, 404) == "unknown transcription session"


async def test_discarding(server: SpeechServer) -> None:
    async with server.client() as client:
        id = await create(client)
        await send(client, id, tone(1.0))
        response = await client.delete(f"{SESSIONS}/{id}")
        assert (response.status_code, response.content) == (204, b"")
        assert error(await send(client, id, tone(1.0)), 409) == "session is closed"
    assert not server.service.stats().residency.resident
    assert server.model.num_steps == 0


async def test_the_65th(server: SpeechServer) -> None:
    async with server.client() as client:
        ids = [await create(client) for _ in range(64)]
        refused = await client.post(SESSIONS)
        assert error(refused, 429) == "too many open transcription sessions"
        assert refused.headers["retry-after"] == "1"
        await client.delete(f"{SESSIONS}/{ids[0]}")
        await create(client)
    server.front.sessions.close()


@pytest.mark.parametrize("vad", [True, False])
async def test_a_take_without_a_chunk(server: SpeechServer, vad: bool) -> None:
    async with server.client() as client:
        id = await create(client, vad=vad, response_format="verbose_json")
        body = (await client.post(f"{SESSIONS}/{id}/finish")).json()
    assert (body["text"], body["segments"], body["duration"]) == ("", [], 0.0)
    assert server.model.num_steps == 0


async def test_the_gate(server: SpeechServer) -> None:
    async with server.client() as client:
        id = await create(client, vad=True)
        silent = await send(client, id, np.zeros(2 * RATE, np.float32))
        assert silent.json()["speech"] is False
        await send(client, id, read_audio(SPEECH))
        for _ in range(500):
            receipt = (await send(client, id, np.zeros(160, np.float32))).json()
            if receipt["speech"]:
                break
            await asyncio.sleep(0.01)
        assert receipt["speech"] is True
        body = (await client.post(f"{SESSIONS}/{id}/finish")).json()
    assert body["text"] == "Hello there."
    assert body["mlx_bun"]["vad"]["speech"] is True
    assert body["mlx_bun"]["vad"]["segments"][0]["start"] > 2


async def test_chunks_that_come_together_keep_their_order(server: SpeechServer) -> None:
    async with server.client() as client:
        id = await create(client)
        chunks = [np.full(200, number / 50, np.float32) for number in range(50)]
        await asyncio.gather(*(send(client, id, chunk) for chunk in chunks))
        await client.post(f"{SESSIONS}/{id}/finish")
    assert np.array_equal(np.concatenate(server.model.takes[0].fed), np.concatenate(chunks))


async def test_a_failed_window_is_told_at_the_end() -> None:
    server = chat_server(FakeWhisper(fail_in_window=0))
    async with server.client() as client:
        id = await create(client)
        assert (await send(client, id, tone(31.0))).status_code == 200
        finished = await client.post(f"{SESSIONS}/{id}/finish")
        assert error(finished, 500) == "transcription failed: the fake was told to fail"
        assert error(await client.post(f"{SESSIONS}/{id}/finish"), 409) == "session is closed"
