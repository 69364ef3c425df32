"""Hundreds of malformed requests: every one a 4xx in the documented shape, the server exact
afterwards.

Each is a good request with one thing wrong: a field with a wrong type or out of range, or bytes that
are damaged. Damage to bytes is random with a fixed seed; what the standard parser still accepts as
an object is skipped.
"""

import json
import random
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from tests.api.fronts import Front, make_front, serving

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
GOOD: dict[str, dict[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5},
    TEXT: {"prompt": "hi", "max_tokens": 5},
}
HUGE = 10**400
NOT_INT = ["1", 1.5, True, [], {}, -1, HUGE, -HUGE]
NOT_FRACTION = ["0.5", True, [], {}, -0.1, 1.1, 1e308, HUGE]
NOT_BOOL = [0, 1, "true", [], {}]
NOT_OBJECT = [1, "x", [], True]

COMMON: dict[str, list[Any]] = {
    "model": [1, [], {}, True],
    "stream": NOT_BOOL,
    "stream_options": [*NOT_OBJECT, {"include_usage": "yes"}],
    "max_tokens": [*NOT_INT, 0],
    "max_completion_tokens": [*NOT_INT, 0],
    "n": [*NOT_INT, 0, 9],
    "temperature": ["0.5", True, [], {}, -0.1, 1e308, HUGE],
    "top_p": NOT_FRACTION,
    "top_k": NOT_INT,
    "min_p": NOT_FRACTION,
    "xtc_probability": NOT_FRACTION,
    "xtc_threshold": NOT_FRACTION,
    "seed": ["1", 1.5, True, [], {}, HUGE, -HUGE],
    "logit_bias": [*NOT_OBJECT, {"a": 1}, {"1": "x"}, {"1": True}, {"999999": 1}, {"-1": 1}],
    "repetition_penalty": ["1", True, [], {}, -0.1, 1e308, HUGE],
    "repetition_context_size": NOT_INT,
    "presence_penalty": ["1", True, [], {}, 1e308, -1e308, HUGE],
    "presence_context_size": NOT_INT,
    "frequency_penalty": ["1", True, [], {}, 1e308, -1e308, HUGE],
    "frequency_context_size": NOT_INT,
    "stop": [1, True, {}, [1], ["a", None], ["x"] * 257],
    "top_logprobs": ["1", 1.5, True, [], {}, -2, 21, HUGE],
    "user": [1, {}, []],
}
CHAT_ONLY: dict[str, list[Any]] = {
    "messages": [
        None,
        [],
        {},
        "hi",
        1,
        [None],
        ["hi"],
        [[]],
        [{}],
        [{"role": None, "content": "x"}],
        [{"role": 1, "content": "x"}],
        [{"role": "root", "content": "x"}],
        [{"role": ["user"], "content": "x"}],
        [{"role": "user", "content": 1}],
        [{"role": "user", "content": {}}],
        [{"role": "user", "content": [1]}],
        [{"role": "user", "content": [{}]}],
        [{"role": "user", "content": [{"type": "text"}]}],
        [{"role": "user", "content": [{"type": "text", "text": 1}]}],
        [{"role": "user", "content": [{"type": ["text"], "text": "x"}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}],
        [{"role": "assistant", "tool_calls": 1}],
        [{"role": "assistant", "tool_calls": [1]}],
        [{"role": "assistant", "tool_calls": [{"function": 1}]}],
        [{"role": "assistant", "tool_calls": [{"function": {"name": 1}}]}],
        [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 1}}]}],
        [{"role": "assistant", "content": "x", "reasoning": 1}],
        [{"role": "user", "content": "x" * 10_000}],
    ],
    "logprobs": NOT_BOOL,
    "tools": [1, {}, "x", [1], [{}], [{"function": {}}], [{"function": {"name": ""}}]],
    "tool_choice": [1, "maybe", [], {}, "required", {"function": {"name": "absent"}}],
    "reasoning_effort": ["max", 1, [], {}, ""],
    "chat_template_kwargs": [*NOT_OBJECT, {"enable_thinking": "no"}, {"messages": []}, {"tools": []}],
}
TEXT_ONLY: dict[str, list[Any]] = {
    "prompt": [
        None,
        "",
        [],
        {},
        1,
        True,
        [""],
        [None],
        [1.5],
        [True],
        [[]],
        [1, "a"],
        [-1],
        [HUGE],
        ["a"] * 65,
    ],
    "logprobs": ["1", 1.5, [], {}, -1, 21, HUGE],
    "echo": NOT_BOOL,
    "best_of": ["1", 1.5, True, 0, 3, 21],
    "suffix": [1, [], "tail"],
}

WRONG_BYTES = [
    b"",
    b" ",
    b"null",
    b"[]",
    b"1",
    b'"x"',
    b"{",
    b"}",
    b"NaN",
    b"\x00",
    b"\xff\xfe{\x00}\x00",
    b"%s" * 10,
    b"messages=hi&stream=true",
    b'--boundary\r\ncontent-disposition: form-data; name="prompt"\r\n\r\nhi\r\n--boundary--\r\n',
    b'{"messages": [{"role": "user", "content": "hi"}], "temperature": NaN}',
    b'{"messages": [{"role": "user", "content": "hi"}], "temperature": Infinity}',
    b'{"messages": [{"role": "user", "content": "hi"}], "temperature": 1e999}',
    b'{"prompt": "hi", "temperature": -1e999}',
    b'{"messages": [{"role": "user", "content": "hi"}], "seed": ' + b"9" * 5000 + b"}",
    rb'{"messages": [{"role": "user", "content": "\ud83d"}], "prompt": "\ud83d"}',
    rb'{"prompt": "hi", "messages": [{"role": "user", "content": "hi"}], "stop": "\udc00"}',
    b'{"prompt": "a", "prompt": "b", "messages": [], "messages": []}',
    b'{"x":' * 10_000 + b"1" + b"}" * 10_000,
    b'{"messages": ' + b"[" * 50_000,
    b'{"messages": [{"role": "user", "content": "hi"}], "tools": ' + b"[" * 300 + b"]" * 300 + b"}",
    json.dumps(GOOD[CHAT]).encode("utf-16"),
    json.dumps(GOOD[CHAT]).encode("utf-32-be"),
    b'{"prompt": "caf\xe9", "messages": [{"role": "user", "content": "caf\xe9"}]}',
]


def wrong_fields() -> Iterator[tuple[str, bytes]]:
    for path, own in ((CHAT, CHAT_ONLY), (TEXT, TEXT_ONLY)):
        for name, values in {**COMMON, **own}.items():
            for value in values:
                yield path, json.dumps({**GOOD[path], name: value}).encode()
        required = "messages" if path == CHAT else "prompt"
        yield path, json.dumps({k: v for k, v in GOOD[path].items() if k != required}).encode()
        for content in WRONG_BYTES:
            yield path, content


def damaged(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Good bodies cut short, with bytes changed, dropped or doubled."""
    rng = random.Random(seed)
    while count:
        path = rng.choice([CHAT, TEXT])
        body = bytearray(json.dumps(GOOD[path]).encode())
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(body))
            match rng.randrange(4):
                case 0:
                    body = body[: at + 1]
                case 1:
                    body[at] = rng.randrange(256)
                case 2:
                    body = body[:at] + body[at + 1 :] or body
                case _:
                    body = body[:at] + body[at:][: rng.randint(1, 5)] + body[at:]
        try:
            json.loads(bytes(body))
        except ValueError:
            count -= 1
            yield path, bytes(body)


async def assert_exact(front: Front) -> None:
    chat = (await front.post(CHAT, GOOD[CHAT])).json()
    assert chat["choices"][0]["message"]["content"] == "Hello"
    assert chat["usage"]["prompt_tokens"] == 21
    text = (await front.post(TEXT, GOOD[TEXT])).json()
    assert text["choices"][0]["text"] == "Hello"


async def test_every_malformed_request_is_refused_in_shape() -> None:
    front = make_front()
    cases = [*wrong_fields(), *damaged(100, seed=7)]
    assert len(cases) > 400
    async with front.client() as client:
        for path, content in cases:
            response = await client.post(path, content=content)
            shown = (path, content[:200], response.status_code, response.text[:200])
            assert 400 <= response.status_code < 500, shown
            assert response.headers["content-type"] == "application/json", shown
            body = response.json()
            assert set(body) == {"error"}, shown
            assert set(body["error"]) <= {"message", "type", "param", "code"}, shown
            assert isinstance(body["error"]["message"], str), shown
            assert body["error"]["message"], shown
    assert not front.engine.requests, "a malformed request reached the engine"
    await assert_exact(front)


@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_encodings_named_in_the_header_do_not_matter(front: Front, path: str) -> None:
    for headers in (
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": "text/plain"},
        {"content-type": "nonsense"},
    ):
        body = json.dumps(GOOD[path]).encode()
        async with front.client() as client:
            assert (await client.post(path, content=body, headers=headers)).status_code == 200
            gzipped = {**headers, "content-encoding": "gzip"}
            assert (await client.post(path, content=b"\x1f\x8b\x08", headers=gzipped)).status_code == 400


def test_damaged_http_leaves_the_server_alive() -> None:
    front = make_front()
    host = b"Host: localhost\r\n"
    requests = [
        b"\r\n\r\n",
        b"GARBAGE\r\n\r\n",
        b"POST\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"POST /v1/completions HTTP/9.9\r\n" + host + b"\r\n",
        b"POST /v1/completions HTTP/1.1\r\n" + host + b"Content-Length: ten\r\n\r\n{}",
        b"POST /v1/completions HTTP/1.1\r\n" + host + b"Content-Length: -5\r\n\r\n{}",
        b"POST /v1/completions HTTP/1.1\r\n" + host + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
        b"POST /v1/completions HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        b"POST /v1/completions HTTP/1.1\r\n" + host + b'Content-Length: 500\r\n\r\n{"prompt"',
        b"POST /v1/completions HTTP/1.1\r\n" + host + b"X: " + b"\x00" * 10 + b"\r\n\r\n",
        b"POST /%ff%fe%00 HTTP/1.1\r\n" + host + b"\r\n",
        b"GET " + b"/x" * 5000 + b" HTTP/1.1\r\n" + host + b"\r\n",
    ]
    with serving(front.app) as port:
        for request in requests:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
                answer = connection.recv(65536)
                assert not answer or answer.startswith(b"HTTP/1.1 4"), (request[:60], answer[:100])
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\n" + host + b"Connection: close\r\n\r\n")
            answer = b""
            while data := connection.recv(65536):
                answer += data
            assert answer.endswith(b'{"status": "ok"}')
