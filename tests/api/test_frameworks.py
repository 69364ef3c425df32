"""Smoke tests of the libraries that agents are built on: LangChain and LiteLLM, through every protocol.

Their imports take seconds, so they happen inside the tests that need them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.api.fronts import make_front, serving
from tests.api.loops import ANSWER, NUM_TURNS, SCHEMA, looping_front, result_of
from tests.fakes import text_script

TEXT = "Hé 你好 🌍!"
# What LangChain warns of concerns its own dependencies.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with serving(make_front(text_script(TEXT)).app) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def looping() -> Iterator[str]:
    with serving(looping_front().app) as port:
        yield f"http://127.0.0.1:{port}"


def langchain_model(protocol: str, base: str) -> Any:
    if protocol == "messages":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(
            model_name="x", base_url=base, api_key="x", max_tokens_to_sample=500, max_retries=0
        )
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(
        model="x",
        base_url=f"{base}/v1",
        api_key="x",
        max_retries=0,
        use_responses_api=protocol == "responses",
    )


PROTOCOLS = ["chat", "responses", "messages"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_langchain(base: str, protocol: str) -> None:
    model = langchain_model(protocol, base)
    reply = model.invoke("hi")
    assert reply.text == TEXT
    assert reply.usage_metadata["output_tokens"] == len(TEXT.encode()) + 1
    assert "".join(chunk.text for chunk in model.stream("hi")) == TEXT


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_tool_loop_in_langchain(looping: str, protocol: str) -> None:
    from langchain_core.messages import HumanMessage, ToolMessage

    schema = {"title": "read", "description": "Reads.", **SCHEMA}
    model = langchain_model(protocol, looping).bind_tools([schema])
    messages: list[Any] = [HumanMessage("Add them up.")]
    for number in range(1, NUM_TURNS + 1):
        reply = model.invoke(messages)
        (call,) = reply.tool_calls
        assert (call["name"], call["args"]) == ("read", {"n": number})
        messages += [reply, ToolMessage(result_of(number), tool_call_id=call["id"])]
    assert model.invoke(messages).text == ANSWER


LITELLM = """
import json, sys
import litellm
base = sys.argv[1]
replies = {}
for provider, url in (("openai", base + "/v1"), ("anthropic", base)):
    options = dict(model=provider + "/x", api_base=url, api_key="x", max_tokens=100)
    options["messages"] = [{"role": "user", "content": "hi"}]
    whole = litellm.completion(**options)
    stream = litellm.completion(stream=True, **options)
    pieces = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    replies[provider] = [whole.choices[0].message.content, pieces, whole.usage.completion_tokens]
items = litellm.responses(model="openai/x", input="hi", api_base=base + "/v1", api_key="x").output
replies["responses"] = items[0].content[0].text
print("REPLIES" + json.dumps(replies))
"""


def test_litellm(base: str) -> None:
    """In a process of its own: it leaves sockets and an event loop behind."""
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # no download at import
    done = subprocess.run(
        [sys.executable, "-c", LITELLM, base], env=environment, capture_output=True, timeout=120, check=True
    )
    replies = json.loads(done.stdout.decode().rpartition("REPLIES")[2])
    num_tokens = len(TEXT.encode()) + 1
    assert replies == {
        "openai": [TEXT, TEXT, num_tokens],
        "anthropic": [TEXT, TEXT, num_tokens],
        "responses": TEXT,
    }
