"""`stoker serve`: the HTTP server."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.choose import find_or_choose, loading_line
from stoker.cli.loading import quick_start
from stoker.cli.options import MODEL_SETTINGS, SAMPLING_SETTINGS, Query, pick_model, with_settings
from stoker.cli.output import fail, note
from stoker.config import Settings
from stoker.preload import complete_torch, import_torch_for_serving

if TYPE_CHECKING:
    import socket

    from stoker.app import Served
    from stoker.app_embed import ServedEncoder
    from stoker.library import ModelEntry
    from stoker.server import Server

PROBE_TIMEOUT_S = 2.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")
NETWORK_SETTINGS = ("host", "port", "api_key", "allowed_hosts", "allowed_origins", "allow_private_media")
LIMIT_SETTINGS = ("body_limit", "require_model")
SCHEDULING_SETTINGS = ("batch", "max_queued", "prefill_chunk", "kv_budget", "memory_budget", "prompt_cache")
DISK_SETTINGS = ("ssd_cache", "ssd_cache_max", "ssd_cache_verify", "ssd_demote_idle", "generation_checkpoint")
SPEECH_SETTINGS = ("whisper_model", "whisper_idle_unload", "whisper_resident", "preload", "vad_model")
EMBED_SETTINGS = ("embedding_model", "rerank_model")
PROCESS_SETTINGS = ("shutdown_timeout_ms", "log_level", "access_log")


@with_settings(
    *MODEL_SETTINGS,
    *EMBED_SETTINGS,
    *NETWORK_SETTINGS,
    *LIMIT_SETTINGS,
    *SCHEDULING_SETTINGS,
    *DISK_SETTINGS,
    *SPEECH_SETTINGS,
    *SAMPLING_SETTINGS,
    *PROCESS_SETTINGS,
)
def run(
    settings: Settings,
    positional: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="Part of a model's name, or a path.", show_default=False),
    ] = None,
    query: Query = None,
    no_open: Annotated[bool, typer.Option("--no-open", hidden=True)] = False,  # of programs with a web page
) -> None:
    """Start the server: an OpenAI-compatible endpoint on this machine.

    \b
      stoker serve                          automatic model, http://127.0.0.1:8080
      stoker serve smollm2 --port 9000
      stoker serve ~/models/llama.gguf --context-limit 8192
      stoker serve whisper-base             transcription only
      stoker serve --embedding-model all-minilm    embeddings beside the chat model
      stoker serve all-minilm                      embeddings alone
      stoker serve --host 0.0.0.0 --api-key "$KEY"

    Without a model: a preferred downloaded one, else the largest downloaded one that fits the
    memory; on a fresh machine a small starter is downloaded. Ctrl-C lets running answers
    finish; a second Ctrl-C cuts them short with an error, a third ends at once.
    """
    if no_open:
        note("Warning: --no-open is ignored: stoker opens no browser.")
    for line in ignored(settings):
        note(line)
    refuse_second_server(settings.port)
    with _bind(settings) as listener:
        entry = find_or_choose(
            pick_model(settings, positional, query), other_kinds=("speech", "embedding", "rerank")
        )
        if entry.kind == "speech":
            _serve_speech(settings, entry, listener)
            return
        note(loading_line(entry))
        _serve(settings, entry, listener)


def _serve(settings: Settings, entry: ModelEntry, listener: socket.socket) -> None:
    started = time.perf_counter()
    with quick_start():
        import_torch_for_serving()

        from stoker.app import build_app, load_served_model
        from stoker.server import build_server, configure_logging

        configure_logging(settings)
        served: Served | ServedEncoder
        if entry.kind in ("embedding", "rerank"):
            from stoker.app_embed import build_encoder_app, load_served_encoder

            served = load_served_encoder(settings, entry)
            app, state = build_encoder_app(served)
        else:
            served = load_served_model(settings, entry)
            app, state = build_app(served)
    stopping_at: list[float] = []

    def on_started() -> None:
        port = listener.getsockname()[1]
        seconds = time.perf_counter() - started
        note(banner(settings, port, served.text.id, seconds, EXAMPLES.get(entry.kind, CHAT_EXAMPLE)))
        threading.Thread(target=complete_torch, name="complete torch", daemon=True).start()

    def on_stopping() -> None:
        stopping_at.append(time.monotonic())
        state.drain.begin()
        active = served.engine.stats().active_rows
        note(
            f"Stopping; {active} running, they may finish. Again: cut them short." if active else "Stopping."
        )

    server = build_server(
        app, settings, on_started=on_started, on_stopping=on_stopping, on_hurry=state.drain.end
    )
    try:
        server.run(sockets=[listener])
    except OSError as error:  # another server began to listen while this one loaded
        fail(f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}")
    finally:
        if state.embed is not None:
            state.embed.close()
        used_s = time.monotonic() - stopping_at[0] if stopping_at else 0.0
        left_s = settings.shutdown_timeout_ms / 1000 - used_s
        served.close(flush_timeout_s=max(0.0, left_s) if server.hurried_by is None else 0.0)
    _exit_if_hurried(server)


def _serve_speech(settings: Settings, entry: ModelEntry, listener: socket.socket) -> None:
    """A server that only transcribes. Its weights come with the first take, or now with --preload."""
    started = time.perf_counter()
    with quick_start():
        from stoker.app import build_speech_app
        from stoker.server import build_server, configure_logging

        configure_logging(settings)
        app, state = build_speech_app(settings, entry)

    def on_started() -> None:
        note(speech_banner(settings, listener.getsockname()[1], entry.id, time.perf_counter() - started))

    def on_stopping() -> None:
        state.drain.begin()
        note("Stopping.")

    server = build_server(
        app, settings, on_started=on_started, on_stopping=on_stopping, on_hurry=state.drain.end
    )
    try:
        server.run(sockets=[listener])
    except OSError as error:  # another server began to listen meanwhile
        fail(f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}")
    _exit_if_hurried(server)


def _exit_if_hurried(server: Server) -> None:
    if server.hurried_by is not None:
        raise typer.Exit(128 + server.hurried_by)


def ignored(settings: Settings) -> list[str]:
    """Warnings about disk cache settings that have no effect."""
    if settings.ssd_cache is not None:
        if settings.prompt_cache:
            return []
        return ["Warning: --ssd-cache is ignored, because --prompt-cache 0 keeps no prefixes."]
    given = [name for name in DISK_SETTINGS if settings.sources.get(name, "default") != "default"]
    return [f"Warning: {settings.sources[name]} is ignored without --ssd-cache." for name in given]


def refuse_second_server(port: int) -> None:
    """Ends the program when something answers on the port, before any weights are loaded."""
    if port == 0:
        return
    import http.client  # 20 ms that help need not wait for

    connection = http.client.HTTPConnection("localhost", port, timeout=PROBE_TIMEOUT_S)
    try:
        connection.connect()
    except OSError:
        return
    try:
        connection.request("GET", "/v1")
        body = connection.getresponse().read(64 * 1024)
    except (OSError, http.client.HTTPException):
        body = b""  # it listens, but does not speak HTTP, or not in time
    finally:
        connection.close()
    fail(
        f"{_who(body)} already answers at http://localhost:{port}/v1. "
        f"Use it, stop it, or choose another port: stoker serve --port {port + 1 if port < 65535 else 8080}"
    )


CHAT_EXAMPLE = ("chat/completions", '{"messages": [{"role": "user", "content": "Say hello."}]}')
EXAMPLES = {
    "embedding": ("embeddings", '{"input": ["Hello."]}'),
    "rerank": ("rerank", '{"query": "A greeting", "documents": ["Hello.", "Goodbye."]}'),
}


def banner(
    settings: Settings,
    port: int,
    model_id: str,
    seconds: float,
    example: tuple[str, str] = CHAT_EXAMPLE,
) -> str:
    """What to do now that the server is ready."""
    url, key = _address(settings, port)
    path, body = example
    return _with_warning(
        settings,
        f"{model_id} is ready in {seconds:.1f} s at {url} (OpenAI base URL: {url}/v1, API: {url}/docs)",
        f"Try: curl {url}/v1/{path} -H 'content-type: application/json'{key} -d '{body}'",
    )


def speech_banner(settings: Settings, port: int, model_id: str, seconds: float) -> str:
    url, key = _address(settings, port)
    return _with_warning(
        settings,
        f"{model_id} is ready in {seconds:.1f} s at {url}, for transcription only (OpenAI: {url}/v1)",
        f"Try: curl {url}/v1/audio/transcriptions{key} -F file=@recording.mp3",
    )


def _address(settings: Settings, port: int) -> tuple[str, str]:
    """The server's URL, and what curl needs to be let in."""
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
    key = ' -H "Authorization: Bearer $STOKER_API_KEY"' if settings.api_key else ""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}", key


def _with_warning(settings: Settings, *lines: str) -> str:
    if settings.host in LOOPBACK or settings.api_key is not None:
        return "\n".join(lines)
    warning = f"Warning: everyone who can reach {settings.host} can use this server; consider --api-key."
    return "\n".join([*lines, warning])


def _bind(settings: Settings) -> socket.socket:
    from stoker.server import bind

    try:
        return bind(settings.host, settings.port)
    except OSError as error:
        fail(f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}")


def _who(body: bytes) -> str:
    try:
        answer = json.loads(body)
        return f"{answer['name']} {answer['version']} serving {answer['model']}"
    except (ValueError, KeyError, TypeError):
        return "Something"
