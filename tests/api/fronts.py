"""Shared by the tests of the front: an application on a scripted engine, and a real server for it."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from tests.fakes import Script, ScriptedEngine, byte_text_model, text_script

from stoker.api import ApiSettings, ApiState, create_app
from stoker.api.drain import Drain
from stoker.api.speech.front import SpeechFront
from stoker.chat.model import TextModel
from stoker.core import Constraint
from stoker.embed.service import EmbedService
from stoker.speech.service import SpeechService


@dataclass
class Front:
    """An application and what it is made of."""

    app: FastAPI
    state: ApiState
    engine: ScriptedEngine

    def client(self, **options: Any) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app=self.app, **options)
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080")

    async def post(self, path: str, body: Any, **options: Any) -> httpx.Response:
        async with self.client() as client:
            return await client.post(path, json=body, **options)

    async def get(self, path: str, **options: Any) -> httpx.Response:
        async with self.client() as client:
            return await client.get(path, **options)


def make_front(
    script: Script | Callable[..., Script] = (),
    *,
    text: TextModel | None = None,
    settings: ApiSettings | None = None,
    list_models: Callable[[], Any] = lambda: (),
    speech: SpeechService | None = None,
    embed: EmbedService | None = None,
    compile_constraint: Callable[[Constraint], None] | None = None,
    **engine_options: Any,
) -> Front:
    engine = ScriptedEngine(script or text_script("Hello there."), **engine_options)
    drain = Drain()
    state = ApiState(
        text=text or byte_text_model(),
        engine=engine,
        settings=settings or ApiSettings(),
        list_models=list_models,
        drain=drain,
        speech=SpeechFront.of(speech, drain) if speech is not None else None,
        embed=embed,
        compile_constraint=compile_constraint,
    )
    return Front(create_app(state), state, engine)


@contextmanager
def serving(app: FastAPI) -> Iterator[int]:
    """A real server for `app` on a free port; yields the port."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.005)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(10)


def frames(body: str) -> list[Any]:
    """The decoded data of every event, "[DONE]" as text. Asserts the framing on the way."""
    assert body.endswith("\n\n")
    decoded: list[Any] = []
    for frame in body.removesuffix("\n\n").split("\n\n"):
        if frame.startswith(":"):
            continue
        assert frame.startswith("data: ")
        assert "\n" not in frame
        data = frame.removeprefix("data: ")
        decoded.append(data if data == "[DONE]" else json.loads(data))
    return decoded
