"""A real server on a real socket, with the clients people use: the openai SDK and curl."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from tests.api.fronts import Front, make_front, serving
from tests.fakes import Failure, text_script

from stoker.api import ApiSettings

HI: list[Any] = [{"role": "user", "content": "hi"}]
TEXT = "Hé 你好 🌍!"


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Front, str]]:
    front = make_front(text_script(TEXT))
    with serving(front.app) as port:
        yield front, f"http://127.0.0.1:{port}/v1"


@pytest.fixture
def client(server: tuple[Front, str]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server[1], api_key="unused", max_retries=0) as client:
        yield client


def test_chat(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(model="x", messages=HI, max_completion_tokens=100, user="me")
    assert reply.choices[0].message.content == TEXT
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage is not None
    assert reply.usage.completion_tokens == len(TEXT.encode()) + 1


def test_chat_stream(client: openai.OpenAI) -> None:
    text, usage = "", []
    for chunk in client.chat.completions.create(model="x", messages=HI, stream=True):
        text += chunk.choices[0].delta.content or ""
        usage += [chunk.usage] if chunk.usage else []
    assert text == TEXT
    assert len(usage) == 1


def test_chat_stream_with_usage(client: openai.OpenAI) -> None:
    options: Any = {"include_usage": True}
    chunks = list(client.chat.completions.create(model="x", messages=HI, stream=True, stream_options=options))
    assert chunks[-1].choices == []
    assert [chunk.usage for chunk in chunks if chunk.usage] == [chunks[-1].usage]


def test_the_sdks_stream_helper(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(model="x", messages=HI, logprobs=True, top_logprobs=2) as stream:
        for _ in stream:
            pass
        reply = stream.get_final_completion()
    assert reply.choices[0].message.content == TEXT
    assert reply.choices[0].logprobs is not None
    content = reply.choices[0].logprobs.content or []
    assert b"".join(bytes(entry.bytes or []) for entry in content) == TEXT.encode()
    assert all(len(entry.top_logprobs) == 2 for entry in content)


def test_n_logprobs_and_stop(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(
        model="x", messages=HI, n=3, logprobs=True, top_logprobs=1, stop=["你"], seed=1, temperature=0
    )
    assert [choice.message.content for choice in reply.choices] == ["Hé "] * 3
    assert [choice.index for choice in reply.choices] == [0, 1, 2]
    for choice in reply.choices:
        assert choice.logprobs is not None
        assert next(entry.token for entry in choice.logprobs.content or []) == "H"


def test_text_completions(client: openai.OpenAI) -> None:
    reply = client.completions.create(model="x", prompt=["a", "b"], logprobs=2, n=2)
    assert [choice.text for choice in reply.choices] == [TEXT] * 4
    logprobs = reply.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.token_logprobs is not None
    assert len(logprobs.token_logprobs) == len(TEXT.encode())
    stream = client.completions.create(model="x", prompt=[97, 98], stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == TEXT


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny/bytes"]
    assert client.models.retrieve("tiny/bytes").id == "tiny/bytes"


async def test_async(server: tuple[Front, str]) -> None:
    async with openai.AsyncOpenAI(base_url=server[1], api_key="unused") as client:
        reply = await client.chat.completions.create(model="x", messages=HI)
        assert reply.choices[0].message.content == TEXT
        stream = await client.chat.completions.create(model="x", messages=HI, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        assert text == TEXT


def test_errors_reach_the_sdk_as_its_own(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="top_p must be at most 1"):
        client.chat.completions.create(model="x", messages=HI, top_p=2)
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="x", messages=[{"role": "user", "content": "x" * 5000}])
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError, match="serve an embedding model"):
        client.embeddings.create(model="x", input="x")
    with pytest.raises(openai.NotFoundError):
        client.files.list()


def test_an_error_in_a_stream_raises_in_the_sdk() -> None:
    front = make_front([72, 105, Failure("out of memory")])
    with serving(front.app) as port:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=0)
        with client, pytest.raises(openai.APIError, match="out of memory"):
            list(client.chat.completions.create(model="x", messages=HI, stream=True))


def test_a_key_from_the_sdk() -> None:
    front = make_front(settings=ApiSettings(api_key="right"))
    with serving(front.app) as port:
        for key, works in (("right", True), ("wrong", False)):
            with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0) as client:
                if works:
                    assert client.chat.completions.create(model="x", messages=HI).choices
                else:
                    with pytest.raises(openai.AuthenticationError):
                        client.chat.completions.create(model="x", messages=HI)


def curl(*arguments: str) -> str:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    done = subprocess.run(["curl", "-sS", *arguments], capture_output=True, timeout=20, check=True)
    return done.stdout.decode()


def test_curl(server: tuple[Front, str]) -> None:
    base = server[1]
    body = json.dumps({"messages": HI})
    reply = json.loads(curl(f"{base}/chat/completions", "-d", body))  # as a form, curl's default type
    assert reply["choices"][0]["message"]["content"] == TEXT
    stream = curl("-N", f"{base}/chat/completions", "-d", json.dumps({"messages": HI, "stream": True}))
    assert stream.endswith("data: [DONE]\n\n")
    assert "你" in stream  # readable in a terminal
    assert curl(f"{base}/../health") == '{"status": "ok"}'
    refused = curl(f"{base}/models", "-H", "Host: evil.example", "-w", "%{http_code}")
    assert refused.endswith("403")


def test_curl_sends_a_large_body_in_chunks(server: tuple[Front, str]) -> None:
    body = json.dumps({"prompt": "x" * 3000})
    answer = curl(f"{server[1]}/completions", "-d", body, "-H", "Transfer-Encoding: chunked")
    assert json.loads(answer)["usage"]["prompt_tokens"] == 3000
