"""POST /v1/completions on a scripted engine."""

import asyncio
from typing import Any

import pytest
from tests.api.fronts import Front, frames, make_front
from tests.fakes import FIRST_PIECE, IM_END, Failure, byte_text_model, text_script

PATH = "/v1/completions"


async def error_of(front: Front, **fields: Any) -> str:
    response = await front.post(PATH, fields)
    assert response.status_code == 400, response.text
    return str(response.json()["error"]["message"])


async def test_the_whole_reply(front: Front) -> None:
    reply = (await front.post(PATH, {"prompt": "Say hi: "})).json()
    assert reply.pop("id").startswith("cmpl-")
    assert isinstance(reply.pop("created"), int)
    assert reply == {
        "object": "text_completion",
        "model": "tiny/bytes",
        "choices": [{"index": 0, "text": "Hello there.", "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 8,
            "completion_tokens": 13,
            "total_tokens": 21,
            "prompt_tokens_details": {"cached_tokens": 0},
            "lane": "batched",
        },
    }
    assert bytes(front.engine.requests[0].prompt_ids) == b"Say hi: "
    assert front.engine.requests[0].max_tokens is None


async def test_the_stream(front: Front) -> None:
    *chunks, done = frames((await front.post(PATH, {"prompt": "x", "stream": True})).text)
    assert done == "[DONE]"
    assert all(chunk["object"] == "text_completion" for chunk in chunks)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "Hello there."
    assert chunks[0]["choices"] == [{"index": 0, "text": "H", "finish_reason": None}]
    assert chunks[-1]["choices"] == [{"index": 0, "text": "", "finish_reason": "stop"}]
    assert chunks[-1]["usage"]["total_tokens"] == 14


async def test_openais_usage_chunk(front: Front) -> None:
    body = {"prompt": "x", "stream": True, "stream_options": {"include_usage": True}}
    *chunks, last, _ = frames((await front.post(PATH, body)).text)
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 14)
    assert all(chunk["usage"] is None for chunk in chunks)


@pytest.mark.parametrize(
    ("prompt", "seen"),
    [
        ("ab", [b"ab"]),
        (["ab", "c"], [b"ab", b"c"]),
        ([97, 98], [b"ab"]),
        ([[97, 98], [99]], [b"ab", b"c"]),
        (["ab", [99]], [b"ab", b"c"]),
    ],
)
async def test_prompt_forms(front: Front, prompt: Any, seen: list[bytes]) -> None:
    assert (await front.post(PATH, {"prompt": prompt})).status_code == 200
    assert [bytes(request.prompt_ids) for request in front.engine.requests] == seen


@pytest.mark.parametrize("stream", [False, True])
async def test_each_prompt_n_times_in_order(stream: bool) -> None:
    front = make_front(lambda request, index: text_script(f"{bytes(request.prompt_ids).decode()}{index}"))
    body = {"prompt": ["a", "b", "c"], "n": 2, "stream": stream}
    response = await front.post(PATH, body)
    texts = [""] * 6
    if stream:
        *chunks, _ = frames(response.text)
        for chunk in chunks:
            texts[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
        usage = chunks[-1]["usage"]
    else:
        for choice in response.json()["choices"]:
            texts[choice["index"]] = choice["text"]
        usage = response.json()["usage"]
    assert texts == ["a0", "a1", "b0", "b1", "c0", "c1"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (3, 18)


@pytest.mark.parametrize(
    "prompt", [None, "", [], [""], ["a", ""], 5, {}, True, [True], [1.5], [[]], [[1], []], [1, "a"], [None]]
)
async def test_not_a_prompt(front: Front, prompt: Any) -> None:
    assert await error_of(front, prompt=prompt) == "prompt must be a non-empty string"


async def test_prompt_limits(front: Front) -> None:
    assert await error_of(front) == "prompt must be a non-empty string"
    assert await error_of(front, prompt=[258]) == "prompt names token 258; the vocabulary has 258 tokens"
    assert await error_of(front, prompt=[10**400])
    assert await error_of(front, prompt=["a"] * 65) == "prompt must hold at most 64 prompts"


async def test_one_prompt_too_long_runs_none() -> None:
    front = make_front(max_context=10, step_s=0.001)
    response = await front.post(PATH, {"prompt": ["ab", "x" * 10, "c"], "stream": True})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"
    assert not front.state.drain.active
    await asyncio.sleep(0.05)
    assert front.engine.counters.active_rows == front.engine.counters.pending_rows == 0
    assert front.engine.counters.generated_tokens <= 1


@pytest.mark.parametrize("value", [0, True])
async def test_logprobs_of_the_tokens(front: Front, value: Any) -> None:
    (choice,) = (await front.post(PATH, {"prompt": "x", "logprobs": value})).json()["choices"]
    block = choice["logprobs"]
    assert block["tokens"] == list("Hello there.")
    assert block["token_logprobs"] == [-0.5] * 12
    assert block["top_logprobs"] is None
    assert block["text_offset"] == list(range(12))
    assert block["content"][0] == {
        "id": 72,
        "token": "H",
        "logprob": -0.5,
        "bytes": [72],
        "top_logprobs": [],
    }


@pytest.mark.parametrize(
    "fields", [{"logprobs": 2}, {"logprobs": True, "top_logprobs": 2}, {"top_logprobs": 2}]
)
async def test_logprobs_with_alternatives(front: Front, fields: dict[str, Any]) -> None:
    body = {"prompt": "x", **fields}
    block = (await front.post(PATH, body)).json()["choices"][0]["logprobs"]
    assert block["top_logprobs"][0] == {"H": -0.5, "I": -1.5}
    assert [c["token"] for c in block["content"][0]["top_logprobs"]] == ["H", "I"]
    *chunks, _ = frames((await front.post(PATH, {**body, "stream": True})).text)
    streamed: dict[str, list[Any]] = {key: [] for key in block}
    for chunk in chunks:
        for key, values in (chunk["choices"][0].get("logprobs") or {}).items():
            streamed[key] += values
    assert streamed == block


async def test_offsets_count_characters() -> None:
    pieces = ["né", "🌍"]
    script = [FIRST_PIECE, FIRST_PIECE + 1, *"é".encode(), *b"x", IM_END]
    front = make_front(script, text=byte_text_model(pieces))
    block = (await front.post(PATH, {"prompt": "x", "logprobs": 0})).json()["choices"][0]["logprobs"]
    # né | 🌍 | the two bytes of é | x
    assert block["text_offset"] == [0, 2, 3, 4, 4]


async def test_logprobs_refusals(front: Front) -> None:
    assert await error_of(front, prompt="x", logprobs="1") == "logprobs must be of type bool"
    assert await error_of(front, prompt="x", logprobs=21) == "logprobs must be at most 20"
    assert await error_of(front, prompt="x", logprobs=-1) == "logprobs must be at least 0"
    assert await error_of(front, prompt="x", top_logprobs=21) == "top_logprobs must be at most 20"
    assert "top_logprobs" in await error_of(front, prompt="x", logprobs=False, top_logprobs=1)


@pytest.mark.parametrize("prompt", ["Say: ", [83, 97, 121, 58, 32]])
async def test_echo(front: Front, prompt: Any) -> None:
    reply = (await front.post(PATH, {"prompt": prompt, "echo": True, "n": 2})).json()
    assert [choice["text"] for choice in reply["choices"]] == ["Say: Hello there."] * 2
    *chunks, _ = frames((await front.post(PATH, {"prompt": prompt, "echo": True, "stream": True})).text)
    assert chunks[0]["choices"][0]["text"] == "Say: "
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "Say: Hello there."


async def test_what_is_not_supported_is_named(front: Front) -> None:
    assert (await error_of(front, prompt="x", suffix="y")).startswith("suffix")
    assert (await error_of(front, prompt="x", best_of=3)).startswith("best_of")
    assert (await error_of(front, prompt="x", best_of=3, n=2)).startswith("best_of")
    assert (await error_of(front, prompt="x", echo=True, logprobs=1)).startswith("echo")
    for fine in ({"suffix": ""}, {"suffix": None}, {"best_of": 2, "n": 2}, {"best_of": 1}, {"echo": False}):
        assert (await front.post(PATH, {"prompt": "x", **fine})).status_code == 200


async def test_structured_output_only_warns(front: Front) -> None:
    response = await front.post(PATH, {"prompt": "x", "guided_regex": "a+"})
    assert response.headers["warning"].startswith("grammar not enforced: ")
    assert bytes(front.engine.requests[0].prompt_ids) == b"x"


async def test_stop_and_budget(front: Front) -> None:
    (choice,) = (await front.post(PATH, {"prompt": "x", "stop": "there"})).json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("Hello ", "stop")
    (choice,) = (await front.post(PATH, {"prompt": "x", "max_tokens": 1})).json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("H", "length")


@pytest.mark.parametrize("stream", [False, True])
async def test_context_limits(stream: bool) -> None:
    front = make_front(max_context=20)
    response = await front.post(PATH, {"prompt": "x" * 21, "stream": stream})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert "21" in error["message"]
    assert "20" in error["message"]
    response = await front.post(PATH, {"prompt": "x" * 18, "max_tokens": 100, "stream": stream})
    if stream:
        *chunks, _ = frames(response.text)
        text = "".join(chunk["choices"][0]["text"] for chunk in chunks)
        reason = chunks[-1]["choices"][0]["finish_reason"]
    else:
        (choice,) = response.json()["choices"]
        text, reason = choice["text"], choice["finish_reason"]
    assert (text, reason) == ("He", "length")


async def test_an_error_of_one_prompt_ends_them_all() -> None:
    def script(request: Any, index: int) -> Any:
        return [65, Failure("broken row")] if request.prompt_ids == (98,) else [65]

    front = make_front(script, step_s=0.001)
    response = await front.post(PATH, {"prompt": ["a", "b"]})
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "broken row"
    assert not front.state.drain.active
