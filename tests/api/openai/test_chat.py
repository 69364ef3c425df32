"""POST /v1/chat/completions on a scripted engine: shapes, fields, errors. What a reply says is in
test_chat_text.py."""

from typing import Any

import pytest
from tests.api.fronts import Front, frames, make_front
from tests.api.openai.chats import CHAT as PATH
from tests.api.openai.chats import HI, ask, error_of, streamed, whole
from tests.fakes import IM_END, Failure, byte_text_model, text_script

from stoker.api import ApiSettings

# The whole answer


async def test_the_whole_reply(front: Front) -> None:
    response = await front.post(PATH, ask())
    assert response.status_code == 200
    reply = response.json()
    assert reply["id"].startswith("chatcmpl-")
    assert reply.pop("id") != (await front.post(PATH, ask())).json()["id"]
    assert isinstance(reply.pop("created"), int)
    # "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n" is 21 byte tokens, marks counted once
    assert reply == {
        "object": "chat.completion",
        "model": "tiny/bytes",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello there.", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 21,
            "completion_tokens": 13,  # twelve characters and the end of the turn
            "total_tokens": 34,
            "prompt_tokens_details": {"cached_tokens": 0},
            "lane": "batched",
        },
    }


async def test_the_engine_gets_the_rendered_prompt(front: Front) -> None:
    await front.post(PATH, ask(max_tokens=5, n=2, seed=3, session_id="agent"))
    (request,) = front.engine.requests
    assert bytes(i for i in request.prompt_ids if i < 256) == b"user\nhi\nassistant\n"
    assert (request.max_tokens, request.n, request.sampling.seed, request.session) == (5, 2, 3, "agent")
    await front.post(PATH, ask(max_tokens=5, ignore_eos=True))
    assert not front.engine.requests[-1].eos_ids
    assert request.eos_ids == {IM_END}


async def test_the_serial_lane() -> None:
    front = make_front(settings=ApiSettings(batch=1))
    assert (await front.post(PATH, ask())).json()["usage"]["lane"] == "serial"


async def test_a_spent_budget_ends_with_length(front: Front) -> None:
    choice = (await front.post(PATH, ask(max_tokens=5))).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hello", "length")


async def test_an_end_at_the_budget_is_still_a_stop(front: Front) -> None:
    choice = (await front.post(PATH, ask(max_tokens=13))).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hello there.", "stop")


async def test_an_empty_reply_has_empty_content() -> None:
    reply = (await make_front([IM_END]).post(PATH, ask())).json()
    assert reply["choices"][0]["message"]["content"] == ""
    assert reply["usage"]["completion_tokens"] == 1


async def test_several_choices() -> None:
    front = make_front(lambda request, index: text_script(f"choice {index}"))
    reply = (await front.post(PATH, ask(n=3))).json()
    assert [c["index"] for c in reply["choices"]] == [0, 1, 2]
    assert [c["message"]["content"] for c in reply["choices"]] == ["choice 0", "choice 1", "choice 2"]
    assert reply["usage"]["prompt_tokens"] == 21
    assert reply["usage"]["completion_tokens"] == 27


# Streams


async def test_the_stream(front: Front) -> None:
    response = await front.post(PATH, ask(stream=True))
    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["cache-control"] == "no-cache"
    *chunks, done = frames(response.text)
    assert done == "[DONE]"
    for chunk in chunks:
        assert chunk["object"] == "chat.completion.chunk"
        assert chunk["id"] == chunks[0]["id"]
        assert {"id", "object", "created", "model", "choices"} <= set(chunk)
        assert set(chunk["choices"][0]) == {"index", "delta", "logprobs", "finish_reason"}
    first, *middle, last = chunks
    assert first["choices"] == [
        {
            "index": 0,
            "delta": {"role": "assistant", "content": "", "refusal": None},
            "logprobs": None,
            "finish_reason": None,
        }
    ]
    assert "".join(c["choices"][0]["delta"]["content"] for c in middle) == "Hello there."
    assert last["choices"] == [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}]
    assert last["usage"]["completion_tokens"] == 13
    assert all("usage" not in chunk for chunk in chunks[:-1])


async def test_openais_usage_chunk(front: Front) -> None:
    body = ask(stream=True, stream_options={"include_usage": True})
    *chunks, last, done = frames((await front.post(PATH, body)).text)
    assert done == "[DONE]"
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 34
    # A client that adds up what it sees must not count anything twice.
    assert all(chunk["usage"] is None for chunk in chunks)
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("options", [None, {}, {"include_usage": None}, {"include_usage": False}, {"x": 1}])
async def test_otherwise_usage_is_on_the_last_chunk(front: Front, options: Any) -> None:
    *_, last, _ = frames((await front.post(PATH, ask(stream=True, stream_options=options))).text)
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["usage"]["total_tokens"] == 34


async def test_choices_interleave_in_a_stream() -> None:
    front = make_front(lambda request, index: text_script("ab" * (index + 1)))
    *chunks, _ = frames((await front.post(PATH, ask(stream=True, n=3))).text)
    assert [c["choices"][0]["index"] for c in chunks[:3]] == [0, 1, 2]
    assert all(c["choices"][0]["delta"].get("role") for c in chunks[:3])
    texts = ["", "", ""]
    ends = []
    for chunk in chunks[3:]:
        (choice,) = chunk["choices"]
        texts[choice["index"]] += choice["delta"].get("content", "")
        if choice["finish_reason"]:
            ends.append(choice["index"])
    assert texts == ["ab", "abab", "ababab"]
    assert ends == [0, 1, 2]
    assert [i for i, chunk in enumerate(chunks) if "usage" in chunk] == [len(chunks) - 1]


# Fields


async def test_messages_are_required(front: Front) -> None:
    for body in ({}, {"messages": []}, {"messages": None}, {"messages": "hi"}, {"messages": {}}):
        response = await front.post(PATH, body)
        assert response.status_code == 400
        assert response.json() == {"error": {"message": "messages required"}}


async def test_fields_without_effect_are_accepted(front: Front) -> None:
    response = await front.post(
        PATH,
        ask(
            model="gpt-4o",
            user="u",
            metadata={"a": "b"},
            store=True,
            service_tier="auto",
            response_format={"type": "text"},
            parallel_tool_calls=False,
            hlg={"x": 1},
            whatever=[1, 2],
        ),
    )
    assert response.status_code == 200
    assert "warning" not in response.headers


async def test_every_field_may_be_null(front: Front) -> None:
    document = (await front.get("/openapi.json")).json()
    names = set(document["components"]["schemas"]["ChatCompletionRequest"]["properties"]) - {"messages"}
    assert len(names) > 30
    response = await front.post(PATH, ask(**dict.fromkeys(names)))
    assert response.status_code == 200, response.text


async def test_session_labels(front: Front) -> None:
    header = {"x-session-affinity": "header", "session_id": "other"}
    for body, expected in (
        ({"session_id": "a", "prompt_cache_key": "b"}, "a"),
        ({"session_id": "", "prompt_cache_key": "b"}, "b"),
        ({"session_id": 5}, "header"),
    ):
        await front.post(PATH, ask(**body), headers=header)
        assert front.engine.requests[-1].session == expected
    await front.post(PATH, ask())
    assert front.engine.requests[-1].session is None


async def test_structured_output_degrades_with_a_warning(front: Front) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    for fields, told in (
        ({"response_format": {"type": "json_object"}}, b"JSON"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}},
            b"integer",
        ),
        ({"guided_regex": "a+b"}, b"a+b"),
        ({"guided_choice": ["yes", "no"]}, b'["yes", "no"]'),
        ({"guided_grammar": "root ::= 'a'"}, b"root ::= 'a'"),
        ({"structured_outputs": schema}, b"integer"),
    ):
        response = await front.post(PATH, ask(**fields))
        assert response.status_code == 200
        warning = response.headers["warning"]
        assert warning.startswith("grammar not enforced: ")
        assert warning.endswith(" - falling back to prompt injection")
        prompt = bytes(i for i in front.engine.requests[-1].prompt_ids if i < 256)
        assert prompt.startswith(b"system\n")
        assert told in prompt
        assert prompt.endswith(b"user\nhi\nassistant\n")


async def test_the_instruction_joins_a_leading_system_message(front: Front) -> None:
    messages = [{"role": "developer", "content": "Be brief."}, *HI]
    await front.post(PATH, {"messages": messages, "response_format": {"type": "json_object"}, "stream": True})
    prompt = bytes(i for i in front.engine.requests[-1].prompt_ids if i < 256)
    assert prompt.count(b"system\n") == 1
    assert b"Be brief." in prompt


async def test_tool_choice(front: Front) -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    for choice in (None, "auto", "none"):
        response = await front.post(PATH, ask(tools=[tool], tool_choice=choice))
        assert response.status_code == 200
        assert "warning" not in response.headers
    for choice in ("required", {"type": "function", "function": {"name": "look"}}):
        # This front has no grammars: refused, never answered as `auto` (B07).
        message = await error_of(front, tools=[tool], tool_choice=choice)
        assert "cannot be enforced: grammars are switched off" in message
    assert "tool_choice" in await error_of(front, tools=[tool], tool_choice="maybe")
    assert "not in tools" in await error_of(front, tools=[tool], tool_choice={"function": {"name": "other"}})
    assert await error_of(front, tools={}) == "tools must be an array"
    assert await error_of(front, tools=["look"]) == "tools[0] must be an object with a function"
    assert "tools[0].function.name" in await error_of(front, tools=[{"type": "function", "function": {}}])


async def test_tools_reach_the_template() -> None:
    template = "{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}{{ messages[-1].content }}"
    front = make_front(text=byte_text_model(template=template))
    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    await front.post(PATH, ask(tools=[tool]))
    assert bytes(front.engine.requests[-1].prompt_ids) == b"[look]hi"
    await front.post(PATH, ask(tools=[tool], tool_choice="none"))
    assert bytes(front.engine.requests[-1].prompt_ids) == b"hi"


@pytest.mark.parametrize(
    ("default", "fields", "seen"),
    [
        (None, {}, "unset"),
        (True, {}, "True"),
        (True, {"reasoning_effort": "none"}, "False"),
        (False, {"reasoning_effort": "low"}, "True low"),
        (None, {"reasoning_effort": "high"}, "True xhigh"),
        (None, {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}}, "False low"),
        (None, {"chat_template_kwargs": {"enable_thinking": True, "extra": "!"}}, "True !"),
    ],
)
async def test_thinking(default: bool | None, fields: dict[str, Any], seen: str) -> None:
    template = (
        "{{ enable_thinking if enable_thinking is defined else 'unset' }}"
        "{{ ' ' ~ reasoning_effort if reasoning_effort is defined }}{{ ' ' ~ extra if extra is defined }}"
    )
    front = make_front(text=byte_text_model(template=template), settings=ApiSettings(thinking=default))
    assert (await front.post(PATH, ask(**fields))).status_code == 200
    assert bytes(front.engine.requests[-1].prompt_ids).decode() == seen


async def test_thinking_refusals(front: Front) -> None:
    assert await error_of(front, reasoning_effort="max") == (
        "reasoning_effort must be one of 'none', 'minimal', 'low', 'medium', 'high', 'xhigh'"
    )
    assert await error_of(front, chat_template_kwargs=[]) == "chat_template_kwargs must be an object"
    assert await error_of(front, chat_template_kwargs={"enable_thinking": 1}) == (
        "chat_template_kwargs.enable_thinking must be of type bool"
    )
    assert "messages" in await error_of(front, chat_template_kwargs={"messages": []})


async def test_media_needs_a_tower(front: Front) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    response = await front.post(PATH, {"messages": [{"role": "user", "content": [part]}]})
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "model has no vision sidecar"


async def test_a_template_that_refuses() -> None:
    template = "{{ raise_exception('roles must alternate') }}"
    front = make_front(text=byte_text_model(template=template))
    assert await error_of(front) == "prompt build failed: roles must alternate"


async def test_a_model_without_a_template() -> None:
    front = make_front(text=byte_text_model(template=None))
    assert "no chat template" in await error_of(front)


async def test_a_large_request_is_prepared_off_the_loop() -> None:
    front = make_front(text=byte_text_model(max_context=1_000_000), max_context=1_000_000)
    response = await front.post(PATH, {"messages": [{"role": "user", "content": "x" * 100_000}]})
    assert response.json()["usage"]["prompt_tokens"] == 100_019


# Failures


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_longer_than_the_context(stream: bool) -> None:
    front = make_front(max_context=20)
    response = await front.post(PATH, ask(stream=stream))  # 21 tokens
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert (error["code"], error["type"]) == ("context_length_exceeded", "invalid_request_error")
    assert "21" in error["message"]
    assert "20" in error["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_that_leaves_two_tokens(stream: bool) -> None:
    front = make_front(max_context=23)
    if stream:
        text, reason, _, _ = await streamed(front, max_tokens=100)
    else:
        text, reason, _ = await whole(front, max_tokens=100)
    assert (text, reason) == ("He", "length")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_full_queue(stream: bool) -> None:
    response = await make_front(max_queued=0).post(PATH, ask(stream=stream))
    assert response.status_code == 429
    assert response.headers["retry-after"] == "1"
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("resource_admission", "queue_full")


async def test_an_engine_error_before_the_answer() -> None:
    front = make_front([65, 66, Failure("out of memory")])
    response = await front.post(PATH, ask())
    assert response.status_code == 500
    assert response.json() == {"error": {"message": "out of memory", "type": "server_error"}}


async def test_an_engine_error_in_the_stream() -> None:
    front = make_front([65, 66, Failure("out of memory")])
    response = await front.post(PATH, ask(stream=True))
    assert response.status_code == 200
    *_, last = frames(response.text)
    assert last == {"error": {"message": "out of memory"}}
    assert "[DONE]" not in response.text


async def test_an_unexpected_exception_is_a_500_in_shape(front: Front, caplog: Any) -> None:
    def broken(request: Any) -> Any:
        raise RuntimeError("secret detail")

    front.engine.submit = broken  # type: ignore[method-assign]
    response = await front.post(PATH, ask())
    assert response.status_code == 500
    assert set(response.json()["error"]) == {"message"}
    assert "secret" not in response.text
    assert "secret detail" in caplog.text


async def test_the_last_message_continued() -> None:
    front = make_front(text_script(" is it."))
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Paris"}]
    for fields in ({}, {"add_generation_prompt": False}):
        response = await front.post(PATH, ask(messages=turns, continue_final_message=True, **fields))
        assert response.json()["choices"][0]["message"]["content"] == " is it."
        prompt = bytes(i for i in front.engine.requests[-1].prompt_ids if i < 256)
        assert prompt == b"user\nhi\nassistant\nParis"
    await front.post(PATH, ask(messages=turns, add_generation_prompt=False))
    assert front.engine.requests[-1].prompt_ids[-2:] == (IM_END, ord("\n"))
    # OpenAI's own clients mean a closed turn.
    await front.post(PATH, ask(messages=turns))
    assert bytes(i for i in front.engine.requests[-1].prompt_ids if i < 256).endswith(b"Paris\nassistant\n")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"add_generation_prompt": True}, "cannot both be true"),
        ({"messages": [{"role": "user", "content": "hi"}]}, "the last message cannot be continued"),
        (
            {
                "messages": [{"role": "assistant", "content": "x"}],
                "tools": [{"type": "function", "function": {"name": "look"}}],
                "tool_choice": "required",
            },
            "cannot be both continued and held to",
        ),
    ],
)
async def test_what_cannot_be_continued(front: Front, fields: dict[str, Any], message: str) -> None:
    response = await front.post(PATH, ask(continue_final_message=True, **fields))
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]
    assert not front.engine.requests
