"""The real program on real weights, through the clients people use: the openai SDK and curl."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import openai
import pytest

pytestmark = pytest.mark.real_weights
QUESTION = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]


class Server:
    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.process, self.url = process, url
        self.client = openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)

    def json(self, path: str) -> dict:
        with urllib.request.urlopen(self.url + path) as answer:
            return json.load(answer)


@pytest.fixture(scope="module")
def server(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("STOKER_", "MLX_BUN_"))}
    environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))
    process = subprocess.Popen(
        [sys.executable, "-m", "stoker", "serve", str(smollm2_path), "--port", str(port), "--batch", "4"],
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


def test_the_sdk_gets_an_answer_and_its_stream_is_the_same(server: Server) -> None:
    plain = server.client.chat.completions.create(
        model="any", messages=QUESTION, temperature=0, max_tokens=40
    )
    text = plain.choices[0].message.content
    assert "Paris" in text
    assert plain.choices[0].finish_reason == "stop"
    assert plain.usage.total_tokens == plain.usage.prompt_tokens + plain.usage.completion_tokens
    stream = server.client.chat.completions.create(
        model="any", messages=QUESTION, temperature=0, max_tokens=40, stream=True
    )
    chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text
    assert chunks[-1].choices[0].finish_reason == "stop"
    usage = chunks[-1].usage
    assert usage.completion_tokens == plain.usage.completion_tokens
    assert usage.prompt_tokens == plain.usage.prompt_tokens
    # The same prompt again: all of it is in the cache; the last token is computed for its logits.
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1


async def test_twelve_at_once_each_get_their_own(server: Server) -> None:
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="-", max_retries=0) as client:

        async def count_from(start: int) -> str:
            prompt = f"{start}, {start + 1}, {start + 2}, {start + 3},"
            answer = await client.completions.create(model="any", prompt=prompt, temperature=0, max_tokens=6)
            return answer.choices[0].text

        answers = await asyncio.gather(*(count_from(start) for start in range(10, 130, 10)))
    for start, text in zip(range(10, 130, 10), answers, strict=True):
        assert int(re.findall(r"\d+", text)[0]) == start + 4


def test_choices_logprobs_stop_and_seed(server: Server) -> None:
    answer = server.client.chat.completions.create(
        model="any",
        messages=[{"role": "user", "content": "Count: one two three"}],
        n=3,
        seed=11,
        temperature=1.2,
        max_tokens=20,
        logprobs=True,
        top_logprobs=4,
        stop=[","],
    )
    assert len({choice.message.content for choice in answer.choices}) == 3
    for choice in answer.choices:
        assert "," not in choice.message.content
        entries = choice.logprobs.content
        assert "".join(entry.token for entry in entries).startswith(choice.message.content)
        assert all(len(entry.top_logprobs) == 4 and entry.logprob <= 0 for entry in entries)


def test_curl_streams_frames(server: Server) -> None:
    body = json.dumps({"messages": QUESTION, "temperature": 0, "max_tokens": 8, "stream": True})
    answer = subprocess.run(
        [
            *("curl", "-sSN", "-i", f"{server.url}/v1/chat/completions"),
            *("-H", "content-type: application/json", "-d", body),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert "content-type: text/event-stream" in answer.lower()
    assert answer.rstrip().endswith("data: [DONE]")


def test_a_client_that_leaves_frees_its_row(server: Server) -> None:
    stream = server.client.completions.create(
        model="any", prompt="Once upon a time", max_tokens=2000, temperature=1.0, stream=True
    )
    for _, _chunk in zip(range(3), stream, strict=False):
        pass
    stream.close()
    deadline = time.monotonic() + 10
    while server.json("/stats")["batch"]["active_rows"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_prompt_beyond_the_context_is_refused_with_both_numbers(server: Server) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        server.client.completions.create(model="any", prompt="word " * 9000, max_tokens=1)
    assert refused.value.code == "context_length_exceeded"
    assert "8192" in refused.value.message


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "maxLength": 20},
                    "days": {"type": "integer", "minimum": 1, "maximum": 9},
                    "units": {"enum": ["C", "F"]},
                },
                "required": ["city", "days", "units"],
                "additionalProperties": False,
            },
        },
    },
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
def test_a_small_model_must_call(server: Server, choice: object, stream: bool) -> None:
    """It would rather talk, and the temperature is high: the call is valid all the same (B07)."""
    wanted = {
        "model": "any",
        "messages": [{"role": "user", "content": "Tell me a joke."}],
        "tools": TOOLS,
        "tool_choice": choice,
        "parallel_tool_calls": False,
        "temperature": 1.5,
        "seed": 3,
        "n": 2,
    }
    if stream:
        with server.client.chat.completions.stream(**wanted) as helper:
            reply = helper.get_final_completion()
    else:
        reply = server.client.chat.completions.create(**wanted)
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
    for answer in reply.choices:
        assert answer.finish_reason == "tool_calls"
        assert answer.message.content in (None, "")
        (call,) = answer.message.tool_calls
        if choice != "required":
            assert call.function.name == "get_weather"
        jsonschema.validate(json.loads(call.function.arguments), schemas[call.function.name])
