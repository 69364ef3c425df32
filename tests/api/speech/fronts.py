"""A chat server and a speech-only server on the fake Whisper."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI
from tests.api.fronts import serving
from tests.fakes import ScriptedEngine, byte_text_model, text_script
from tests.speech.fakes import FakeWhisper, make_service

from stoker.api import ApiSettings, ApiState, create_app
from stoker.api.drain import Drain
from stoker.api.speech.front import SpeechFront
from stoker.api.speech.server import SpeechState, create_speech_app
from stoker.speech.service import SpeechService

TRANSCRIPTIONS = "/v1/audio/transcriptions"
SESSIONS = "/v1/audio/sessions"


@dataclass
class SpeechServer:
    app: FastAPI
    model: FakeWhisper
    service: SpeechService
    front: SpeechFront

    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app=self.app)
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080")

    async def post(self, path: str, **options: Any) -> httpx.Response:
        async with self.client() as client:
            return await client.post(path, **options)

    async def get(self, path: str) -> httpx.Response:
        async with self.client() as client:
            return await client.get(path)

    async def transcribe(self, audio: bytes, path: str = TRANSCRIPTIONS, **fields: Any) -> httpx.Response:
        return await self.post(path, files={"file": ("talk.wav", audio)}, data=fields)

    @contextmanager
    def serving(self) -> Iterator[int]:
        with serving(self.app) as port:
            yield port


def chat_server(
    model: FakeWhisper | None = None,
    *,
    service: SpeechService | None = None,
    settings: ApiSettings | None = None,
    **options: Any,
) -> SpeechServer:
    model = model or FakeWhisper()
    service = service or make_service(model, **options)
    drain = Drain()
    front = SpeechFront.of(service, drain)
    state = ApiState(
        text=byte_text_model(),
        engine=ScriptedEngine(text_script("Hello there.")),
        settings=settings or ApiSettings(),
        drain=drain,
        speech=front,
    )
    return SpeechServer(create_app(state), model, service, front)


def speech_server(model: FakeWhisper | None = None, **options: Any) -> SpeechServer:
    model = model or FakeWhisper()
    service = make_service(model, **options)
    front = SpeechFront.of(service, Drain())
    return SpeechServer(create_speech_app(SpeechState("tiny/whisper", front)), model, service, front)


def events(body: str) -> list[tuple[str, Any]]:
    """(name, data) of each frame; asserts the framing on the way."""
    found = []
    assert body.endswith("\n\n")
    for frame in body.removesuffix("\n\n").split("\n\n"):
        if frame.startswith(":"):
            continue
        first, second = frame.split("\n")
        name = first.removeprefix("event: ")
        data = json.loads(second.removeprefix("data: "))
        assert data.pop("type") == name
        found.append((name, data))
    return found


def error(response: httpx.Response, status: int = 400) -> str:
    """The message of a refusal in the contract's shape."""
    assert response.status_code == status, response.text
    kinds = {415: "invalid_request_error", 503: "model_unavailable", 429: "resource_admission"}
    default = "invalid_request_error" if status < 500 else "server_error"
    detail = response.json()["error"]
    assert detail["type"] == kinds.get(status, default)
    return detail["message"]
