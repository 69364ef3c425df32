"""A running `stoker serve` and what it writes on stderr."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable

Spawn = Callable[..., "subprocess.Popen[str]"]


class Server:
    """Ready once it is made; its stderr is collected as it comes."""

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
