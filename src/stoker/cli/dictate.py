"""`stoker dictate`: the microphone into a streaming take, here or on a server."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from stoker.cli.options import with_settings
from stoker.cli.output import fail, note
from stoker.config import Settings

if TYPE_CHECKING:
    from stoker.speech.wav import Samples

CHUNK_S = 0.5


class Recorder(Protocol):
    """Where the take goes."""

    def send(self, samples: Samples) -> list[str]:
        """The texts of the segments finished since the last call."""

    def finish(self) -> str:
        """The whole text."""

    def discard(self) -> None: ...


Takes = Callable[[], Recorder]  # begins one


@with_settings("whisper_model", "whisper_idle_unload", "whisper_resident", "vad_model", "device", "threads")
def run(
    settings: Settings,
    query: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Part of a Whisper model's name.", show_default=False),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="TEXT", help="The same as MODEL.")] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server", metavar="URL", help="Use the server there instead of a model in this process."
        ),
    ] = None,
    api_key: Annotated[
        str | None, typer.Option("--server-key", metavar="KEY", help="Its API key.", envvar="STOKER_API_KEY")
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", metavar="CODE", help="Code or name. Default: detected.")
    ] = None,
    beam_size: Annotated[int | None, typer.Option("--beam-size", metavar="N", help="1 to 16.")] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", metavar="TEXT", help="Style and words to expect.")
    ] = None,
    vocabulary: Annotated[
        str | None, typer.Option("--vocabulary", metavar="A,B", help="Terms to expect.")
    ] = None,
    no_vad: Annotated[
        bool, typer.Option("--no-vad", help="Transcribe even when nobody seems to speak.")
    ] = False,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the text to the clipboard.")] = False,
    once: Annotated[bool, typer.Option("--once", help="End after one take.")] = False,
) -> None:
    """Dictate: speak, press Enter, and get the text.

    \b
      stoker dictate
      stoker dictate --language de --vocabulary "Kubernetes, PyTorch"
      stoker dictate --server http://127.0.0.1:8080 --copy --once

    Text is on standard output, one take per line. Long takes appear while you speak. Needs the
    microphone extra: pip install "stoker[microphone]". Ctrl-C discards a take.
    """
    values: dict[str, Any] = {
        "language": language,
        "prompt": prompt,
        "beam_size": beam_size,
        "vocabulary": vocabulary,
        "vad": not no_vad,
    }
    values = {name: value for name, value in values.items() if value is not None}
    microphone = _microphone()
    with contextlib.ExitStack() as open_until_the_end:
        if server:
            takes = _on_server(open_until_the_end, server, api_key, values)
        else:
            takes = _here(settings, model or query, values)
        while True:
            recorder = takes()
            try:
                text = _take(recorder, microphone)
            except KeyboardInterrupt:
                recorder.discard()
                note("\nDiscarded.")
                return
            print(text, flush=True)
            if copy and text:
                _copy(text)
            if once:
                return


def _take(recorder: Recorder, microphone: Any) -> str:
    """From Enter to Enter."""
    note("Speak; Enter ends the take.")
    for samples in _record(microphone):
        for text in recorder.send(samples):
            note(text.strip())
    return recorder.finish()


def _record(microphone: Any) -> Iterator[Samples]:
    """Chunks of the microphone until the person presses Enter."""
    import queue
    import threading

    import numpy as np

    from stoker.speech.types import SAMPLE_RATE

    chunks: queue.Queue[Samples | None] = queue.Queue()

    def wait_for_enter() -> None:
        sys.stdin.readline()
        chunks.put(None)

    threading.Thread(target=wait_for_enter, daemon=True).start()
    with microphone.InputStream(
        samplerate=SAMPLE_RATE,
        channels=1,
        dtype="float32",
        blocksize=int(CHUNK_S * SAMPLE_RATE),
        callback=lambda data, *_: chunks.put(np.array(data[:, 0], np.float32)),
    ):
        while (chunk := chunks.get()) is not None:
            yield chunk


def _microphone() -> Any:
    try:
        import sounddevice  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        fail('dictation needs a microphone library: pip install "stoker[microphone]"')
    except OSError as error:  # the library is there, PortAudio is not
        fail(f"the microphone cannot be used: {error}")
    return sounddevice


def _here(settings: Settings, model: str | None, values: dict[str, Any]) -> Takes:
    from stoker.api.speech.fields import read_session
    from stoker.cli.speech import local_service
    from stoker.speech.session import Session

    order = read_session(values).order
    service = local_service(settings, model)
    service.checkpoint()
    return lambda: LocalRecorder(Session(service, order))


def _on_server(stack: contextlib.ExitStack, url: str, api_key: str | None, values: dict[str, Any]) -> Takes:
    import httpx

    from stoker.api.speech.fields import read_session

    read_session(values)  # the same words for a bad value as without a server
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    client = stack.enter_context(httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=600))
    return lambda: ServerRecorder(client, values)


class LocalRecorder:
    """A session in this process; windows are computed between chunks."""

    def __init__(self, session: Any) -> None:
        import threading

        self._session = session
        self._told = 0
        self._threading = threading

    def send(self, samples: Samples) -> list[str]:
        if self._session.append(samples):
            self._threading.Thread(target=self._session.pump, daemon=True).start()
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


def _copy(text: str) -> None:
    import shutil
    import subprocess

    for command in (["pbcopy"], ["wl-copy"], ["xclip", "-selection", "clipboard"], ["clip"]):
        if shutil.which(command[0]):
            subprocess.run(command, input=text.encode(), check=False)
            return
    note("No clipboard program was found (pbcopy, wl-copy, xclip, clip).")
