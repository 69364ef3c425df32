"""What the streams of Messages and Responses share: signs of life, and clients that leave."""

import json
import socket
import time
from typing import Any

import httpx
import pytest
from tests.api.fronts import make_front, serving
from tests.fakes import text_script

from stoker.api import ApiSettings

BODIES: dict[str, dict[str, Any]] = {
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4000},
    "/v1/responses": {"model": "m", "input": "hi"},
}


@pytest.mark.parametrize("path", BODIES)
async def test_a_quiet_stream_is_kept_alive(path: str) -> None:
    front = make_front(prefill_s=0.2, settings=ApiSettings(heartbeat_s=0.02))
    body = (await front.post(path, {**BODIES[path], "stream": True})).text
    assert body.count(": keep-alive\n\n") >= 2
    first, *_, last = [frame for frame in body.split("\n\n") if frame.startswith("event: ")]
    assert first.startswith(("event: message_start", "event: response.created"))
    assert last.startswith(("event: message_stop", "event: response.completed"))
    pings = body.count("event: ping")
    assert pings >= 3 if path == "/v1/messages" else pings == 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", BODIES)
def test_a_client_that_leaves_frees_its_row(path: str, stream: bool) -> None:
    front = make_front(text_script("x" * 3000), step_s=0.002)
    content = json.dumps({**BODIES[path], "stream": stream}).encode()
    with serving(front.app) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(content)}\r\n\r\n"
            connection.sendall(head.encode() + content)
            if stream:
                assert connection.recv(15) == b"HTTP/1.1 200 OK"
            else:
                wait_until(lambda: front.engine.counters.active_rows == 1)
        wait_until(lambda: front.engine.counters.active_rows == 0)
        assert front.engine.counters.generated_tokens < 2500
        assert not front.state.drain.active
        stats = httpx.get(f"http://127.0.0.1:{port}/stats").json()
        assert stats["response_store"]["entries"] == 0


def wait_until(condition: Any) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("it did not happen")
