"""Transcription as events: order, framing, errors, and what the official client makes of them."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator

import openai
import pytest
from tests.api.speech.fronts import TRANSCRIPTIONS, chat_server, error, events
from tests.speech.fakes import FakeWhisper
from tests.speech.sounds import tone, wav16

from stoker.api.speech import routes

LONG = wav16(tone(70.0))


async def test_events_in_order() -> None:
    server = chat_server(FakeWhisper([" One.", " ", " Zwölf."]))
    response = await server.transcribe(LONG, stream="true")
    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["cache-control"] == "no-cache"
    found = events(response.text)
    assert [name for name, _ in found] == [
        "transcript.text.delta",
        "transcript.progress",
        "transcript.progress",
        "transcript.text.delta",
        "transcript.progress",
        "transcript.text.done",
    ]
    deltas = [data for name, data in found if name == "transcript.text.delta"]
    assert deltas == [
        {"delta": " One.", "segment": {"id": 0, "start": 0.0, "end": 30.5}},
        {"delta": " Zwölf.", "segment": {"id": 2, "start": 60.0, "end": 70.0}},
    ]
    progress = [data for name, data in found if name == "transcript.progress"]
    assert progress[0] == {"done": 3000, "total": 7000}
    assert progress[-1] == {"done": 7000, "total": 7000}
    done = found[-1][1]
    assert set(done) == {"text", "mlx_bun"}
    assert done["text"] == "One. Zwölf." or done["text"] == "One.  Zwölf."


@pytest.mark.parametrize("format", ["json", "text", "srt", "vtt", "verbose_json"])
async def test_the_end_is_the_plain_answer(format: str) -> None:
    server = chat_server()
    streamed = events((await server.transcribe(LONG, stream="true", response_format=format)).text)[-1][1]
    plain_format = "verbose_json" if format == "verbose_json" else "json"
    plain = (await server.transcribe(LONG, response_format=plain_format)).json()
    for body in (streamed, plain):
        del body["mlx_bun"]["timings"]
    assert streamed == plain


async def test_words_in_a_stream() -> None:
    fields = {"stream": "true", "timestamp_granularities[]": "word"}
    assert (await chat_server().transcribe(LONG, **fields)).status_code == 200
    response = await chat_server().transcribe(LONG, response_format="verbose_json", **fields)
    assert len(events(response.text)[-1][1]["words"]) == 6


async def test_silence() -> None:
    server = chat_server()
    response = await server.transcribe(wav16(tone(3.0) * 0), stream="true", vad="true")
    ((name, data),) = events(response.text)
    assert (name, data["text"], data["mlx_bun"]["vad"]["speech"]) == ("transcript.text.done", "", False)
    assert not server.model.takes


async def test_errors_before_and_within() -> None:
    server = chat_server(FakeWhisper(fail_in_window=1))
    assert error(await server.transcribe(LONG, stream="true", temperature="7"))
    found = events((await server.transcribe(LONG, stream="true")).text)
    assert [name for name, _ in found] == ["transcript.text.delta", "error"]
    assert found[-1][1] == {"message": "transcription failed: the fake was told to fail"}


async def test_a_wait_is_filled_with_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "HEARTBEAT_S", 0.02)
    server = chat_server(FakeWhisper(step_s=0.05))
    assert ": keep-alive\n\n" in (await server.transcribe(wav16(tone(1.0)), stream="true")).text


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def post(port: int, fields: dict[str, str]) -> http.client.HTTPConnection:
    parts = [
        f'--xyz\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode()
        for k, v in fields.items()
    ]
    head = b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    body = b"".join(parts) + head + wav16(tone(5.0)) + b"\r\n--xyz--\r\n"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", TRANSCRIPTIONS, body, {"content-type": "multipart/form-data; boundary=xyz"})
    return connection


@pytest.mark.parametrize("stream", ["true", "false"])
def test_a_client_that_leaves_stops_the_take(stream: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    server = chat_server(FakeWhisper(steps_per_window=100_000, step_s=0.002))
    with server.serving() as port:
        connection = post(port, {"stream": stream})
        eventually(lambda: server.model.num_steps > 5)
        connection.close()
        eventually(lambda: server.service.lane.num_waiting == 0)
        assert not server.service.stats().residency.resident
        assert not server.front.drain.active
        eventually(lambda: any(" 499 " in record.getMessage() for record in caplog.records))
        server.model.steps_per_window = 1
        connection = post(port, {"stream": "false"})
        assert json.loads(connection.getresponse().read())["text"] == "Hello there."
        connection.close()


def test_a_waiting_client_that_leaves_never_runs() -> None:
    server = chat_server(FakeWhisper(gate=threading.Event()))
    assert server.model.gate is not None
    with server.serving() as port:
        first = post(port, {})
        eventually(lambda: len(server.model.takes) == 1)
        second = post(port, {})
        eventually(lambda: server.service.lane.num_waiting == 2)
        second.close()
        eventually(lambda: server.service.lane.num_waiting == 1)
        server.model.gate.set()
        assert first.getresponse().status == 200
        first.close()
    assert len(server.model.takes) == 1


async def test_takes_come_one_after_the_other() -> None:
    server = chat_server(FakeWhisper(step_s=0.005))
    answers = await asyncio.gather(*(server.transcribe(wav16(tone(1.0))) for _ in range(8)))
    assert [answer.status_code for answer in answers] == [200] * 8
    assert server.model.max_concurrent == 1
    assert server.service.stats().requests == 8


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    with chat_server().serving() as port:
        url = f"http://127.0.0.1:{port}/v1"
        with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
            yield client


class TestOpenAIClient:
    def test_json(self, client: openai.OpenAI) -> None:
        answer = client.audio.transcriptions.create(model="whisper-1", file=("a.wav", LONG))
        assert answer.text == "Hello there. Hello there. Hello there."

    @pytest.mark.parametrize("format", ["text", "srt", "vtt"])
    def test_texts(self, client: openai.OpenAI, format: str) -> None:
        answer = client.audio.transcriptions.create(
            model="whisper-1", file=("a.wav", LONG), response_format=format
        )
        starts = {"text": "Hello there. Hello", "srt": "1\n00:00:00,000 --> ", "vtt": "WEBVTT\n\n00:00"}
        assert isinstance(answer, str)
        assert answer.startswith(starts[format])

    def test_verbose_with_words(self, client: openai.OpenAI) -> None:
        answer = client.audio.transcriptions.create(
            model="whisper-1",
            file=("a.wav", LONG),
            response_format="verbose_json",
            timestamp_granularities=["word", "segment"],
        )
        assert answer.duration == 70.0
        assert answer.segments is not None
        assert answer.words is not None
        assert [segment.start for segment in answer.segments] == [0.0, 30.0, 60.0]
        assert answer.words[0].word == " Hello"

    def test_stream(self, client: openai.OpenAI) -> None:
        with client.audio.transcriptions.create(model="w", file=("a.wav", LONG), stream=True) as stream:
            found = list(stream)
        assert "".join(item.delta for item in found if item.type == "transcript.text.delta").strip() == (
            "Hello there. Hello there. Hello there."
        )
        assert found[-1].type == "transcript.text.done"
        assert found[-1].text == "Hello there. Hello there. Hello there."

    @pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
    def test_translation(self, client: openai.OpenAI) -> None:
        answer = client.audio.translations.create(model="whisper-1", file=("a.wav", LONG))
        assert answer.text.startswith("Hello")

    def test_an_error(self, client: openai.OpenAI) -> None:
        with pytest.raises(openai.BadRequestError, match="undecodable audio"):
            client.audio.transcriptions.create(model="whisper-1", file=("a.wav", b"no audio"))
