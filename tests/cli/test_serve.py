"""`stoker serve` as a process: start, refuse, serve, stop."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.cli.running import Server

from stoker.cli.serve import banner
from stoker.config import resolve


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


def test_no_open_is_a_warning(stoker: Run):
    code, _, err = stoker("serve", "no-such-model", "--port", "0", "--no-open")
    assert code == 1
    assert err.splitlines()[0] == "Warning: --no-open is ignored: stoker opens no browser."
    assert "no model matches" in err
