"""Tool calls on the wire of chat completions, scripted: B01, B03, B05, B07, B09, and the SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from tests.api.fronts import Front, frames, make_front, serving
from tests.api.openai.chats import CHAT, HI, ask, error_of
from tests.chat.families import CHATML_TOOLS, XML_TOOLS
from tests.fakes import byte_text_model, text_script

THINKING = CHATML_TOOLS + "{# </think> #}"
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
NOW: dict[str, Any] = {"type": "function", "function": {"name": "now"}}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>'
NOW_CALL = '<tool_call>{"name": "now", "arguments": {}}</tool_call>'


def front_saying(text: str, template: str = CHATML_TOOLS, **options: Any) -> Front:
    return make_front(text_script(text), text=byte_text_model(template=template), **options)


async def message_of(front: Front, **fields: Any) -> tuple[dict[str, Any], str]:
    response = await front.post(CHAT, ask(tools=[WEATHER, NOW], **fields))
    assert response.status_code == 200, response.text
    (choice,) = response.json()["choices"]
    return choice["message"], choice["finish_reason"]


async def deltas_of(front: Front, **fields: Any) -> tuple[list[dict[str, Any]], str]:
    response = await front.post(CHAT, ask(tools=[WEATHER, NOW], stream=True, **fields))
    *chunks, done = frames(response.text)
    assert done == "[DONE]"
    choices = [chunk["choices"][0] for chunk in chunks]
    return [choice["delta"] for choice in choices], choices[-1]["finish_reason"]


def called(message: dict[str, Any]) -> list[tuple[str, Any]]:
    calls = message.get("tool_calls", [])
    assert all(call["id"].startswith("call_") and len(call["id"]) == 29 for call in calls)
    assert len({call["id"] for call in calls}) == len(calls)
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]


async def test_a_call_alone() -> None:
    message, reason = await message_of(front_saying(CALL))
    assert called(message) == [("get_weather", {"city": "Paris", "days": 2})]
    assert message["content"] is None
    assert "reasoning" not in message
    assert reason == "tool_calls"


async def test_b03_two_calls_and_text() -> None:
    message, reason = await message_of(front_saying("I look.\n" + CALL + NOW_CALL))
    assert called(message) == [("get_weather", {"city": "Paris", "days": 2}), ("now", {})]
    assert message["content"] == "I look."
    assert reason == "tool_calls"


async def test_b01_deltas() -> None:
    deltas, reason = await deltas_of(front_saying("Ok. " + CALL + NOW_CALL))
    assert reason == "tool_calls"
    entries = [entry for delta in deltas for entry in delta.get("tool_calls", [])]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Ok."
    seen: dict[int, str] = {}
    for entry in entries:
        index = entry["index"]
        if index not in seen:
            assert index == len(seen)
            assert entry["id"]
            assert entry["type"] == "function"
            assert entry["function"]["name"] == ["get_weather", "now"][index]
            seen[index] = ""
        else:
            assert "id" not in entry
            assert "name" not in entry["function"]
        seen[index] += entry["function"]["arguments"]
    assert [json.loads(text) for text in seen.values()] == [{"city": "Paris", "days": 2}, {}]
    assert sum(entry["index"] == 0 for entry in entries) > 5  # arguments came as they were written


async def test_b05_a_call_that_cannot_be_read_is_text() -> None:
    broken = '<tool_call>\n{"name": "get_weather", "arguments": {"city": [}}\n</tool_call>'
    unknown = '<tool_call>{"name": "rm_rf", "arguments": {}}</tool_call>'
    message, reason = await message_of(front_saying(unknown))
    assert (message["content"], reason) == (unknown, "stop")
    assert "tool_calls" not in message
    message, _ = await message_of(front_saying("<tool_call>nonsense</tool_call>"))
    assert message["content"] == "<tool_call>nonsense</tool_call>"
    message, _ = await message_of(front_saying(broken))
    assert "tool_calls" in message or message["content"] == broken


async def test_without_tools_markup_is_text() -> None:
    response = await front_saying(CALL).post(CHAT, ask())
    assert response.json()["choices"][0]["message"]["content"] == CALL


async def test_b07_none() -> None:
    front = front_saying("Hm. " + CALL)
    message, reason = await message_of(front, tool_choice="none")
    assert message == {"role": "assistant", "content": "Hm."}
    assert reason == "stop"
    prompt = bytes(i for i in front.engine.requests[-1].prompt_ids if i < 256)
    assert b"get_weather" not in prompt


async def test_b07_a_mode_that_cannot_be_enforced_is_refused() -> None:
    message = await error_of(front_saying(CALL), tools=[WEATHER], tool_choice="required")
    assert message.startswith("tool_choice required cannot be enforced")


async def test_b07_required_and_named_are_grammars() -> None:
    front = front_saying(CALL)
    compiled: list[Any] = []
    object.__setattr__(front.state, "compile_constraint", compiled.append)
    await message_of(front, tool_choice="required")
    request = front.engine.requests[-1]
    assert request.constraint is not None
    assert request.constraint == compiled[-1]
    assert "get_weather" in request.constraint.source
    assert "now" in request.constraint.source
    message, _ = await message_of(front, tool_choice={"type": "function", "function": {"name": "now"}})
    constraint = front.engine.requests[-1].constraint
    assert constraint is not None
    assert "get_weather" not in constraint.source
    assert "tool_calls" not in message  # the script called another tool than the named one


async def test_b09_a_call_inside_thinking() -> None:
    for text in ("<think>Hm.\n" + CALL, "<think>Hm.\n" + CALL + "\n</think>\n\n"):
        message, reason = await message_of(front_saying(text, THINKING))
        assert called(message) == [("get_weather", {"city": "Paris", "days": 2})]
        assert (message["reasoning"], message["content"], reason) == ("Hm.", None, "tool_calls")


async def test_parallel_false_ends_with_the_first_call() -> None:
    front = front_saying(CALL + NOW_CALL + "x" * 500)
    message, reason = await message_of(front, parallel_tool_calls=False)
    assert [name for name, _ in called(message)] == ["get_weather"]
    assert (message["content"], reason) == (None, "tool_calls")
    assert front.engine.counters.generated_tokens < len(CALL + NOW_CALL) + 50
    deltas, reason = await deltas_of(front, parallel_tool_calls=False)
    assert reason == "tool_calls"
    assert {entry["index"] for delta in deltas for entry in delta.get("tool_calls", [])} == {0}


async def test_a_call_cut_by_the_budget_is_length() -> None:
    message, reason = await message_of(front_saying(CALL), max_tokens=60)
    assert reason == "length"
    assert json.loads(message["tool_calls"][0]["function"]["arguments"])["city"].startswith("P")


async def test_xml_arguments_are_typed() -> None:
    text = (
        "<tool_call>\n<function=get_weather>\n<parameter=city>\n12\n</parameter>\n<parameter=days>\n12\n"
        "</parameter>\n</function>\n</tool_call>"
    )
    message, _ = await message_of(front_saying(text, XML_TOOLS))
    assert called(message) == [("get_weather", {"city": "12", "days": 12})]


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<think>\nWhy\n</think>\n\nSo.", "Why", "So."),
        ("<think>Why", "Why", ""),
        ("So.", None, "So."),
        ("<think>\n\n</think>\n\nSo.", None, "So."),
    ],
)
async def test_reasoning(text: str, reasoning: str | None, content: str) -> None:
    front = front_saying(text, THINKING)
    message, _ = await message_of(front)
    assert message.get("reasoning") == message.get("reasoning_content") == reasoning
    assert message["content"] == content
    deltas, _ = await deltas_of(front)
    assert "".join(delta.get("reasoning", "") for delta in deltas) == (reasoning or "")
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == (reasoning or "")
    assert "".join(delta.get("content") or "" for delta in deltas) == content


async def test_b36_the_prompt_opens_the_thinking() -> None:
    template = THINKING + "{% if add_generation_prompt %}<think>\n{% endif %}"
    for options in ({"max_tokens": 7}, {"max_tokens": 7, "stream": True}):
        response = await front_saying("I think so.</think>Yes.", template).post(CHAT, ask(**options))
        if "stream" in options:
            choices = [frame["choices"][0] for frame in frames(response.text)[:-1]]
            text = "".join(choice["delta"].get("content") or "" for choice in choices)
            thought = "".join(choice["delta"].get("reasoning") or "" for choice in choices)
            reason = choices[-1]["finish_reason"]
        else:
            (choice,) = response.json()["choices"]
            text, thought = choice["message"]["content"], choice["message"]["reasoning"]
            reason = choice["finish_reason"]
        assert (text, thought, reason) == ("", "I think", "length")
    message, _ = await message_of(front_saying("I think so.\n</think>\n\nYes.", template))
    assert (message["reasoning"], message["content"]) == ("I think so.", "Yes.")


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    front = front_saying("<think>Hm</think>Let me see.\n" + CALL + NOW_CALL, THINKING)
    with (
        serving(front.app) as port,
        openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="unused", max_retries=0) as client,
    ):
        yield client


def test_the_sdk_accumulates_a_stream(client: openai.OpenAI) -> None:
    tools: Any = [WEATHER, NOW]
    whole = client.chat.completions.create(model="x", messages=HI, tools=tools).choices[0]
    with client.chat.completions.stream(model="x", messages=HI, tools=tools) as stream:
        events = [event.type for event in stream]
        final = stream.get_final_completion().choices[0]
    assert "tool_calls.function.arguments.delta" in events
    for choice in (whole, final):
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content == "Let me see."
        calls = choice.message.tool_calls or []
        assert [call.function.name for call in calls] == ["get_weather", "now"]
        assert [json.loads(call.function.arguments) for call in calls] == [{"city": "Paris", "days": 2}, {}]


def test_a_loop_of_five_turns() -> None:
    """The client answers each call; the whole history goes back every time."""
    turns = iter(range(100))

    def script(request: Any, choice: int) -> list[int]:
        turn = next(turns)
        if turn == 5:
            return text_script("Done.")
        arguments = json.dumps({"city": f'City {turn} "q" ä', "days": turn})
        return text_script(f'<tool_call>\n{{"name": "get_weather", "arguments": {arguments}}}\n</tool_call>')

    front = make_front(
        script, text=byte_text_model(template=CHATML_TOOLS, max_context=16000), max_context=16000
    )
    with (
        serving(front.app) as port,
        openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="unused", max_retries=0) as client,
    ):
        history: list[Any] = list(HI)
        for turn in range(5):
            tools: Any = [WEATHER]
            reply = (
                client.chat.completions.create(model="x", messages=history, tools=tools).choices[0].message
            )
            (call,) = reply.tool_calls or []
            assert json.loads(call.function.arguments) == {"city": f'City {turn} "q" ä', "days": turn}
            history.append(reply.model_dump(exclude_none=turn % 2 == 0))  # B10: content null, or left out
            history.append({"role": "tool", "tool_call_id": call.id, "content": f"{turn} degrees"})
        last = client.chat.completions.create(model="x", messages=history, tools=[WEATHER]).choices[0]  # type: ignore[list-item]
        assert (last.message.content, last.finish_reason) == ("Done.", "stop")
    prompt = bytes(i for i in front.engine.requests[-1].prompt_ids if i < 256).decode()
    assert prompt.count("<tool_call>") == 5
    assert "None" not in prompt
    assert "4 degrees" in prompt


def thinker(request: Any, choice: int) -> list[int]:
    """Thinks for ever, unless the prompt ends behind its thinking."""
    prompt = bytes(i for i in request.prompt_ids if i < 256)
    if prompt.endswith(b"</think>\n\n"):
        return text_script("Answer " + str(choice))
    return [*b"<think>\n", *(b"hm " * 500)]


@pytest.mark.parametrize("n", [1, 3])
async def test_a_thinking_budget_closes_the_channel(n: int) -> None:
    front = make_front(thinker, text=byte_text_model(template=THINKING))
    response = await front.post(CHAT, ask(thinking_budget=12, n=n, logprobs=True))
    body = response.json()
    for choice in body["choices"]:
        assert choice["message"]["reasoning"] == "hm hm hm hm"[: len("hm hm hm hm")]
        assert choice["message"]["content"] == "Answer 0"
        assert choice["finish_reason"] == "stop"
    thought = len("<think>\nhm hm hm hm")
    assert body["usage"]["completion_tokens"] == n * (thought + len("Answer 0") + 1)
    assert len(front.engine.requests) == 1 + n
    assert body["usage"]["prompt_tokens"] == len(front.engine.requests[0].prompt_ids)
    prompt = bytes(i for i in front.engine.requests[1].prompt_ids if i < 256)
    assert prompt.endswith(b"<think>\nhm hm hm hm\n</think>\n\n")


async def test_a_thinking_budget_counts_in_max_tokens() -> None:
    front = make_front(thinker, text=byte_text_model(template=THINKING))
    fields: dict[str, Any] = {"thinking_budget": 12, "max_tokens": 22}
    (choice,) = (await front.post(CHAT, ask(**fields))).json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Ans", "length")
    (choice,) = (await front.post(CHAT, ask(reasoning={"max_tokens": 12}, max_tokens=22))).json()["choices"]
    assert choice["message"]["content"] == "Ans"
    assert "at least 0" in await error_of(front, thinking_budget=-1)
