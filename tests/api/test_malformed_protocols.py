"""As test_malformed.py, for Messages and Responses: every wrong request a 4xx in the protocol's shape."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.api.fronts import make_front
from tests.api.test_malformed import CHAT_ONLY, COMMON, NOT_BOOL, NOT_INT, NOT_OBJECT, WRONG_BYTES

MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
GOOD: dict[str, dict[str, Any]] = {
    MESSAGES: {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5},
    RESPONSES: {"model": "m", "input": "hi", "max_output_tokens": 5},
}
SHARED = [
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "xtc_probability",
    "xtc_threshold",
    "seed",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "repetition_context_size",
]
NOT_STRING = [1, True, [], {}]
BLOCKS = [[1], [{}], [{"type": 1}], [{"type": "text"}], [{"type": "text", "text": 1}]]
OWN: dict[str, dict[str, list[Any]]] = {
    MESSAGES: {
        "messages": [None, [], {}, 1, [None], [[]], [{}], [{"role": 1, "content": "x"}]]
        + [[{"role": "user", "content": content}] for content in (1, {}, None, *BLOCKS)]
        + [[{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f"}]}]],
        "max_tokens": [*NOT_INT, 0],
        "model": NOT_STRING,
        "system": [1, {}, [1], [{}], [{"type": "image"}]],
        "stop_sequences": [1, "x", {}, [1], [None], ["x"] * 257],
        "tools": [1, {}, "x", [1], [{"name": 1, "input_schema": {}}], [{"name": "f", "input_schema": []}]],
        "tool_choice": [1, "auto", [], {}, {"type": "some"}, {"type": "tool"}, {"type": "any"}],
        "thinking": [*NOT_OBJECT, {}, {"type": "much"}],
        "output_config": [*NOT_OBJECT, {"effort": "huge"}, {"format": {}}, {"format": {"type": "xml"}}],
        "metadata": NOT_OBJECT,
        "reasoning_effort": CHAT_ONLY["reasoning_effort"],
        "chat_template_kwargs": CHAT_ONLY["chat_template_kwargs"],
    },
    RESPONSES: {
        "model": NOT_STRING,
        "input": [None, [], {}, 1, [None], [[]], [{}], [{"type": 1}], [{"role": "user", "content": 1}]]
        + [[{"role": "user", "content": content}] for content in BLOCKS],
        "max_output_tokens": [*NOT_INT, 0],
        "instructions": NOT_STRING,
        "previous_response_id": [*NOT_STRING, "resp_gone", ""],
        "store": NOT_BOOL,
        "background": [*NOT_BOOL, True],
        "parallel_tool_calls": NOT_BOOL,
        "include": [1, "x", {}, [1], ["x"]],
        "metadata": [*NOT_OBJECT, {"k": 1}, {"k": None}],
        "text": [*NOT_OBJECT, {"format": 1}, {"format": {}}, {"format": {"type": "json_schema"}}],
        "reasoning": [*NOT_OBJECT, {"effort": 1}, {"effort": "much"}, {"summary": "long"}],
        "truncation": [1, "some", {}],
        "tools": [1, {}, "x", [1], [{}], [{"type": "function"}], [{"type": 1}]],
        "tool_choice": [1, "maybe", [], {}, "required", {"type": "function", "name": "absent"}],
        "top_logprobs": ["1", 1.5, True, -1, 21],
        "logit_bias": COMMON["logit_bias"],
        "user": NOT_STRING,
    },
}


def wrong(path: str) -> Iterator[bytes]:
    fields = {**{name: COMMON[name] for name in SHARED}, **OWN[path]}
    for name, values in fields.items():
        for value in values:
            yield json.dumps({**GOOD[path], name: value}).encode()
    yield from WRONG_BYTES


def check_shape(path: str, body: Any) -> None:
    if path == MESSAGES:
        assert set(body) == {"type", "error", "request_id"}
        assert set(body["error"]) == {"type", "message"}
    else:
        assert set(body) == {"error"}
        assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["type"] == "invalid_request_error"
    assert body["error"]["message"]


@pytest.mark.parametrize("path", [MESSAGES, RESPONSES])
async def test_every_malformed_request_is_refused_in_shape(path: str) -> None:
    front = make_front()
    async with front.client() as client:
        for content in wrong(path):
            response = await client.post(path, content=content)
            assert 400 <= response.status_code < 500, (content[:200], response.text[:200])
            check_shape(path, response.json())
    assert not front.engine.requests, "a malformed request reached the engine"
    assert (await front.post(path, GOOD[path])).status_code == 200
