"""`stoker serve` as a process: start, refuse, serve, stop."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from stoker.cli.serve import banner
from stoker.config import resolve

Spawn = Callable[..., subprocess.Popen[str]]


class Server:
    """A running `stoker serve`; its stderr is collected as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()
        self.port = int(self.wait_for(r"ready in .* at http://127\.0\.0\.1:(\d+)").group(1))

    def _collect(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)

    def wait_for(self, pattern: str, timeout_s: float = 60) -> re.Match[str]:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if found := re.search(pattern, "".join(self.lines)):
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"{pattern!r} did not come: {''.join(self.lines)}")

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def stream(self, max_tokens: int) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """A streamed answer of `max_tokens` tokens, its first bytes already there."""
        connection = self.connect()
        body = {"messages": [{"role": "user", "content": "hi"}], "stream": True, "max_tokens": max_tokens}
        connection.request(
            "POST",
            "/v1/chat/completions",
            json.dumps(body | {"temperature": 0}),
            {"content-type": "application/json"},
        )
        response = connection.getresponse()
        assert response.status == 200
        assert response.readline().startswith(b"data: ")
        return connection, response

    def wait(self) -> int:
        code = self.process.wait(timeout=60)
        self._reader.join(timeout=10)
        return code


@pytest.fixture
def serve(spawn: Spawn, tiny_model: Path) -> Callable[..., Server]:
    def start(*arguments: str) -> Server:
        process = spawn("serve", str(tiny_model), "--port", "0", *arguments, stdout=subprocess.DEVNULL)
        return Server(process)

    return start


def test_serves_until_a_signal_and_lets_the_running_answer_finish(
    serve: Callable[..., Server], stoker: Run, tiny_model: Path
):
    server = serve()
    server.wait_for(r"Try: curl http://127\.0\.0\.1:\d+/v1/chat/completions")
    connection = server.connect()
    connection.request("GET", "/v1/models")
    assert json.loads(connection.getresponse().read())["data"][0]["id"] == tiny_model.name
    connection.close()

    # A second server refuses to start, before it loads anything.
    code, _, err = stoker("serve", str(tiny_model), "--port", str(server.port))
    assert code == 1
    assert f"serving {tiny_model.name} already answers at http://localhost:{server.port}/v1" in err
    assert f"--port {server.port + 1}" in err
    assert "Loading" not in err

    connection, response = server.stream(max_tokens=300)
    server.process.send_signal(signal.SIGINT)
    server.wait_for("Stopping; 1 running")
    assert response.read().endswith(b"data: [DONE]\n\n")
    connection.close()
    assert server.wait() == 0
    assert not any("Traceback" in line for line in server.lines)


def test_a_second_signal_ends_it_at_once(serve: Callable[..., Server]):
    server = serve()
    connection, response = server.stream(max_tokens=50_000)
    server.process.send_signal(signal.SIGTERM)
    server.wait_for("Stopping")
    sent = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.wait() == 128 + signal.SIGTERM
    assert time.monotonic() - sent < 5
    response.close()
    connection.close()


def test_the_shutdown_limit_cancels_what_is_left(serve: Callable[..., Server]):
    server = serve("--shutdown-timeout-ms", "1500")
    connection, response = server.stream(max_tokens=90_000)
    sent = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    response.read()
    assert server.wait() == 0
    assert 0.5 < time.monotonic() - sent < 20
    connection.close()


@pytest.fixture
def something_listening() -> Iterator[int]:
    """A port where a program accepts connections and says nothing that HTTP knows."""
    listener = socket.create_server(("localhost", 0))

    def answer() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            peer.sendall(b"220 mail ready\r\n")
            peer.close()

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def test_any_program_on_the_port_stops_the_start(stoker: Run, something_listening: int):
    code, _, err = stoker("serve", "nothing", "--port", str(something_listening))
    assert code == 1
    assert err.startswith(f"stoker: Something already answers at http://localhost:{something_listening}/v1.")


def test_an_address_that_is_not_ours_is_one_sentence(stoker: Run, tiny_model: Path):
    code, _, err = stoker("serve", str(tiny_model), "--host", "192.0.2.1", "--port", "0")
    assert code == 1
    assert err.startswith("stoker: cannot listen on 192.0.2.1:0: ")


def test_an_unknown_model_ends_it_before_torch_is_loaded(stoker: Run):
    code, _, err = stoker("serve", "no-such-model", "--port", "0")
    assert code == 1
    assert "no model matches 'no-such-model'" in err


def test_the_banner_says_what_to_do():
    plain = banner(resolve({}, environ={}), 8080, "m", 1.0)
    assert "http://127.0.0.1:8080/v1" in plain
    assert "Authorization" not in plain
    assert "Warning" not in plain
    everyone = banner(resolve({"host": "0.0.0.0"}, environ={}), 80, "m", 1.0)
    assert "curl http://127.0.0.1:80/v1/chat/completions" in everyone
    assert "Warning: everyone who can reach 0.0.0.0" in everyone
    keyed = banner(resolve({"host": "::1", "api_key": "s3cret"}, environ={}), 80, "m", 1.0)
    assert "http://[::1]:80/v1" in keyed
    assert "Authorization: Bearer" in keyed
    assert "s3cret" not in keyed
