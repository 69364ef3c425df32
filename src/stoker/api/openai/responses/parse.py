"""A Responses request's body to one checked order, by way of the chat request it stands for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers

from stoker.api.as_chat import shared_fields
from stoker.api.body import parse_object
from stoker.api.chat_order import ChatOrder, make_chat_order
from stoker.api.fields import Fields, invalid
from stoker.api.generation import Order
from stoker.api.model_field import read_model
from stoker.api.openai.responses import echo
from stoker.api.openai.responses.items import Item, Message, new_id, read_items, to_messages
from stoker.api.openai.responses.saved import load_response
from stoker.api.openai.responses.tools import ResponseTools, read_tools
from stoker.api.openai.responses.truncation import drop_oldest
from stoker.api.state import ApiState

_MAX_TOP_LOGPROBS = 20
_REPLY_ROOM = 1024  # tokens that truncation leaves for a reply of unknown length


@dataclass(frozen=True, slots=True)
class ResponseRequest:
    order: Order
    stream: bool
    warnings: tuple[str, ...]  # for the Warning header
    items: list[Item]  # everything it is a reply to, earlier responses included
    instructions: str | None
    store: bool
    include: frozenset[str]
    head: dict[str, Any]  # the response object while nothing has been generated


def parse_response(state: ApiState, body: bytes, headers: Headers) -> ResponseRequest:
    """Raises InvalidRequest (TemplateError included) and NotFound."""
    fields = Fields(parse_object(body))
    read_model(fields, state.settings)
    _refuse_unsupported(fields)
    stream = bool(fields.flag("stream"))
    items, instructions = _read_input(fields, state)
    tools = read_tools(fields.raw("tools"), fields.raw("tool_choice"))
    include = echo.read_include(fields)
    id = new_id("resp")
    head = _head(fields, id, state.text.id, tools, instructions)
    chat_body = _chat_body(fields, tools, include)

    def make(messages: list[Message]) -> ChatOrder:
        return make_chat_order(state, {**chat_body, "messages": messages}, headers, id=id)

    messages = to_messages(instructions, items)
    if head["truncation"] == "auto":
        chat = drop_oldest(messages, make, _prompt_room(state, head["max_output_tokens"]))
    else:
        chat = make(messages)
    sampling = chat.order.sampling
    head |= {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p or 1.0,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
    }
    return ResponseRequest(
        order=chat.order,
        stream=stream,
        warnings=chat.warnings,
        items=items,
        instructions=instructions,
        store=head["store"],
        include=include,
        head=head,
    )


def _refuse_unsupported(fields: Fields) -> None:
    """What would change the answer's meaning if it were ignored."""
    if fields.flag("background"):
        raise invalid("background", "background is not supported; use stream")
    for name in ("conversation", "prompt"):
        if fields.raw(name) is not None:
            raise invalid(name, f"{name} is not supported; send the items in input")


def _read_input(fields: Fields, state: ApiState) -> tuple[list[Item], str | None]:
    """The whole conversation and its instructions, which carry over when the request has none."""
    instructions = fields.string("instructions")
    items = read_items(fields.raw("input"))
    previous = fields.string("previous_response_id")
    if previous is not None:
        saved = load_response(state, previous, param="previous_response_id")
        items = [*saved.history(), *items]
        if instructions is None:
            instructions = saved.instructions
    if not items:
        raise invalid("input", "input is required: a string or a non-empty array of items")
    return items, instructions


def _chat_body(fields: Fields, tools: ResponseTools, include: frozenset[str]) -> dict[str, Any]:
    """The chat request that asks for the same, without its messages."""
    body = shared_fields(fields, "user", "logit_bias", "stop")
    body["max_tokens"] = _read_ceiling(fields)
    body["tools"], body["tool_choice"] = tools.functions or None, tools.choice
    body["parallel_tool_calls"] = fields.flag("parallel_tool_calls")
    body["response_format"] = echo.read_format(fields)[1] or fields.raw("response_format")
    body["reasoning_effort"] = echo.read_reasoning(fields)[1] or fields.raw("reasoning_effort")
    top_logprobs = fields.integer("top_logprobs", 0, _MAX_TOP_LOGPROBS)
    if top_logprobs or "message.output_text.logprobs" in include:
        body |= {"logprobs": True, "top_logprobs": top_logprobs}
    return body


def _read_ceiling(fields: Fields) -> int | None:
    older = fields.integer("max_tokens", 1)
    ceiling = fields.integer("max_output_tokens", 1)
    return older if ceiling is None else ceiling


def _prompt_room(state: ApiState, max_output_tokens: int | None) -> int:
    """Tokens of the context that a truncated prompt may fill."""
    context = state.engine.max_context
    return context - min(max_output_tokens or _REPLY_ROOM, context // 4)


def _head(
    fields: Fields, id: str, model: str, tools: ResponseTools, instructions: str | None
) -> dict[str, Any]:
    parallel, store = fields.flag("parallel_tool_calls"), fields.flag("store")
    return {
        "id": id,
        "object": "response",
        "created_at": int(time.time()),
        "completed_at": None,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": instructions,
        "max_output_tokens": _read_ceiling(fields),
        "max_tool_calls": fields.integer("max_tool_calls", 1),
        "model": model,
        "output": [],
        "parallel_tool_calls": True if parallel is None else parallel,
        "previous_response_id": fields.string("previous_response_id"),
        "prompt_cache_key": _text_or_none(fields.raw("prompt_cache_key")),
        "reasoning": echo.read_reasoning(fields)[0],
        "safety_identifier": fields.string("safety_identifier"),
        "service_tier": "default",
        "store": True if store is None else store,
        "text": echo.read_format(fields)[0],
        "tool_choice": tools.echo_choice,
        "tools": tools.echo,
        "top_logprobs": fields.integer("top_logprobs", 0, _MAX_TOP_LOGPROBS) or 0,
        "truncation": fields.one_of("truncation", ("auto", "disabled")) or "disabled",
        "usage": None,
        "user": fields.string("user"),
        "metadata": echo.read_metadata(fields),
    }


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None
