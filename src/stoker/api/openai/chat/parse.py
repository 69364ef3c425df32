"""A chat request's body to one checked value. Tokenizing included: after this only the engine can
refuse the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from starlette.datastructures import Headers

from stoker.api.body import parse_object
from stoker.api.chat_order import make_chat_order
from stoker.api.fields import Fields
from stoker.api.generation import Order
from stoker.api.openai import sampling
from stoker.api.state import ApiState


@dataclass(frozen=True, slots=True)
class ChatRequest:
    order: Order
    stream: sampling.StreamOptions
    warnings: tuple[str, ...]  # for the Warning header


def parse_chat(state: ApiState, body: bytes, headers: Headers) -> ChatRequest:
    """Raises InvalidRequest (TemplateError included)."""
    parsed = parse_object(body)
    stream = sampling.read_stream(Fields(parsed))
    made = make_chat_order(state, parsed, headers, id=f"chatcmpl-{uuid4()}")
    return ChatRequest(made.order, stream, made.warnings)
