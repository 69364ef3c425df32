"""A Messages request's body to one checked order, by way of the chat request it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from starlette.datastructures import Headers

from stoker.api.anthropic.conversation import read_conversation
from stoker.api.anthropic.tools import read_tool_choice, read_tools
from stoker.api.as_chat import shared_fields
from stoker.api.body import parse_object
from stoker.api.chat_order import make_chat_order
from stoker.api.fields import Fields, invalid
from stoker.api.generation import Order
from stoker.api.state import ApiState

_EFFORTS = {"low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "xhigh"}
_MAX_STOPS = 256
# The protocol demands a ceiling from its clients; this is for those who leave it out all the same.
DEFAULT_MAX_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class MessageRequest:
    order: Order
    stream: bool
    warnings: tuple[str, ...]  # for the Warning header

    @property
    def input_tokens(self) -> int:
        return len(self.order.prompts[0])


def parse_message(state: ApiState, body: bytes, headers: Headers) -> MessageRequest:
    """Raises InvalidRequest (TemplateError included)."""
    fields = Fields(parse_object(body))
    stream = bool(fields.flag("stream"))
    body_of_chat = chat_body(fields)
    if body_of_chat["max_tokens"] is None and state.settings.max_tokens is None:
        body_of_chat["max_tokens"] = DEFAULT_MAX_TOKENS
    chat = make_chat_order(state, body_of_chat, headers, id=f"msg_{uuid4().hex[:24]}")
    return MessageRequest(chat.order, stream, chat.warnings)


def chat_body(fields: Fields) -> dict[str, Any]:
    """The chat request that asks for the same."""
    fields.nested("metadata")
    # logit_bias is not among them: token ids are no business of this protocol.
    body = shared_fields(fields, "max_tokens", "reasoning_effort", "response_format")
    body["messages"] = read_conversation(fields.raw("system"), fields.raw("messages"))
    # A last turn of the assistant's is the beginning of the reply.
    last = body["messages"][-1]
    body["continue_final_message"] = last["role"] == "assistant" and "tool_calls" not in last
    body["tools"] = read_tools(fields.raw("tools"))
    body |= read_tool_choice(fields.raw("tool_choice"))
    body["stop"] = _read_stops(fields)
    _read_thinking(fields, body)
    _read_output(fields, body)
    return body


def _read_stops(fields: Fields) -> list[str] | None:
    stops = fields.raw("stop_sequences")
    if stops is None:
        return None
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise invalid("stop_sequences", "stop_sequences must be an array of strings")
    if len(stops) > _MAX_STOPS:
        raise invalid("stop_sequences", f"stop_sequences must hold at most {_MAX_STOPS} strings")
    return stops


def _read_thinking(fields: Fields, body: dict[str, Any]) -> None:
    """`enabled` (with a budget) and `disabled` switch the template; `adaptive` leaves the model's own
    default. An explicit chat_template_kwargs.enable_thinking wins."""
    thinking = fields.nested("thinking")
    if thinking is None:
        return
    mode = thinking.required_one_of("type", ("enabled", "disabled", "adaptive"))
    given = fields.nested("chat_template_kwargs")
    budget = thinking.integer("budget_tokens", 0)
    if mode == "enabled" and budget is not None:
        body["thinking_budget"] = budget
    if mode in ("enabled", "disabled"):
        body["chat_template_kwargs"] = {"enable_thinking": mode == "enabled", **(given.body if given else {})}


def _read_output(fields: Fields, body: dict[str, Any]) -> None:
    """`output_config`: how much effort, and a schema the text must conform to. The schema's older
    place is `output_format`."""
    output = fields.nested("output_config")
    if output is not None:
        effort = output.one_of("effort", tuple(_EFFORTS))
        if effort is not None and body["reasoning_effort"] is None:
            body["reasoning_effort"] = _EFFORTS[effort]
    shape = (output.nested("format") if output else None) or fields.nested("output_format")
    if shape is None:
        return
    shape.required_one_of("type", ("json_schema",))
    if shape.nested("schema") is None:
        raise invalid("output_config.format.schema", "output_config.format.schema must be an object")
    body["response_format"] = {
        "type": "json_schema",
        "json_schema": {"name": "output", "schema": shape.raw("schema"), "strict": True},
    }
