"""The real program on a free port, for tests on real weights."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai


class Server:
    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.process, self.url = process, url
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)

    def json(self, path: str) -> dict[str, Any]:
        with urllib.request.urlopen(self.url + path) as answer:
            document: dict[str, Any] = json.load(answer)
            return document


@contextmanager
def real_server(model: Path, config: Path, *flags: str) -> Iterator[Server]:
    """Ready when it is yielded; must end with status 0 when told to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("STOKER_", "MLX_BUN_"))}
    environ["XDG_CONFIG_HOME"] = str(config)
    process = subprocess.Popen(
        [sys.executable, "-m", "stoker", "serve", str(model), "--port", str(port), *flags],
        env=environ,
        stdout=subprocess.DEVNULL,
    )
    server = Server(process, f"http://127.0.0.1:{port}")
    deadline = time.monotonic() + 120
    while True:
        assert process.poll() is None, "the server ended"
        assert time.monotonic() < deadline, "the server did not come up"
        try:
            server.json("/health")
            break
        except OSError:
            time.sleep(0.1)
    yield server
    server.client.close()
    process.terminate()
    assert process.wait(timeout=60) == 0
