"""Where a take goes: a session in this process, or one of a server."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable
from typing import Any, Protocol

from stoker.cli.output import fail
from stoker.config import Settings
from stoker.speech.wav import Samples


class Recorder(Protocol):
    def send(self, samples: Samples) -> list[str]:
        """The texts of the segments finished since the last call."""
        ...

    def finish(self) -> str:
        """The whole text."""
        ...

    def discard(self) -> None: ...


Takes = Callable[[], Recorder]  # begins one


def here(settings: Settings, model: str | None, idle_unload_s: float | None, values: dict[str, Any]) -> Takes:
    """In this process. `idle_unload_s`: how long weights stay after a take; None = for good."""
    from stoker.api.speech.fields import read_session
    from stoker.cli import speech
    from stoker.speech.session import Session

    order = read_session(values).order
    service = speech.local_service(settings, model, idle_unload_s)
    service.checkpoint()
    return lambda: LocalRecorder(Session(service, order))


def on_server(stack: contextlib.ExitStack, url: str, api_key: str | None, values: dict[str, Any]) -> Takes:
    import httpx

    from stoker.api.speech.fields import read_session

    read_session(values)  # the same words for a bad value as without a server
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    client = stack.enter_context(httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=600))
    return lambda: ServerRecorder(client, values)


class LocalRecorder:
    """A session in this process; windows are computed between chunks."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._told = 0

    def send(self, samples: Samples) -> list[str]:
        if self._session.append(samples):
            threading.Thread(target=self._session.pump, daemon=True).start()
        segments = self._session.receipt().segments[self._told :]
        self._told += len(segments)
        return [segment.text for segment in segments]

    def finish(self) -> str:
        try:
            return str(self._session.finish().transcript.text.strip())
        finally:
            self._session.close()

    def discard(self) -> None:
        self._session.close()


class ServerRecorder:
    """A session of a server."""

    def __init__(self, client: Any, values: dict[str, Any]) -> None:
        self._client = client
        self._told = 0
        self._path = f"/v1/audio/sessions/{self._ask('POST', '/v1/audio/sessions', json=values)['id']}"

    def send(self, samples: Samples) -> list[str]:
        headers = {"content-type": "audio/pcm;rate=16000"}
        content = samples.astype("<f4").tobytes()
        receipt = self._ask("POST", f"{self._path}/audio", content=content, headers=headers)
        segments = receipt["segments"][self._told :]
        self._told += len(segments)
        return [segment["text"] for segment in segments]

    def finish(self) -> str:
        return str(self._ask("POST", f"{self._path}/finish")["text"])

    def discard(self) -> None:
        import httpx

        with contextlib.suppress(httpx.HTTPError):  # it expires by itself
            self._client.delete(self._path)

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        import httpx

        try:
            response = self._client.request(method, path, **options)
        except httpx.HTTPError as error:
            fail(f"the server at {self._client.base_url} does not answer: {error}")
        try:
            body = response.json()
        except json.JSONDecodeError:
            body = {}
        if response.is_error:
            message = body.get("error", {}).get("message", response.reason_phrase)
            fail(f"the server refused: {message}")
        return body
