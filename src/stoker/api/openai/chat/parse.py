"""A chat request's body to one checked value. Tokenizing included: after this only the engine can
refuse the request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import uuid4

from starlette.datastructures import Headers

from stoker.api.body import parse_object
from stoker.api.fields import Fields, invalid
from stoker.api.generation import Order
from stoker.api.openai import sampling, structured
from stoker.api.openai.chat.thinking import read_thinking
from stoker.api.openai.chat.tools import read_tools
from stoker.api.session import session_label
from stoker.api.state import ApiState
from stoker.chat.messages import normalize_messages


@dataclass(frozen=True, slots=True)
class ChatRequest:
    order: Order
    stream: sampling.StreamOptions
    warnings: tuple[str, ...]  # for the Warning header


def parse_chat(state: ApiState, body: bytes, headers: Headers) -> ChatRequest:
    """Raises InvalidRequest (TemplateError included)."""
    fields = Fields(parse_object(body))
    messages = fields.raw("messages")
    sampling.read_common(fields)
    stream = sampling.read_stream(fields)
    tools = read_tools(fields)
    thinking = read_thinking(fields, state.settings.thinking)
    logprobs = _read_logprobs(fields)
    params = sampling.read_sampling(fields, state, thinking=thinking.enabled, logprobs=logprobs)
    warnings = [tools.warning] if tools.warning else []
    output = structured.read_structured(state, fields.body)
    warnings += output.warnings
    if output.instruction is not None:
        plain = normalize_messages(messages, state.text.id)
        messages = structured.with_instruction(plain, output.instruction)
    order = Order(
        id=f"chatcmpl-{uuid4()}",
        prompts=(),
        sampling=params,
        max_tokens=sampling.read_max_tokens(fields, state),
        ignore_eos=bool(fields.flag("ignore_eos")),
        n=sampling.read_n(fields),
        stops=sampling.read_stops(fields),
        session=session_label(fields.body, headers),
    )
    prompt = state.text.prompt_from_messages(messages, tools.offered, thinking.template_kwargs)
    if not prompt:
        raise invalid("messages", "messages render to an empty prompt")
    constraint = structured.after_thinking(output.constraint, state.text, prompt)
    order = replace(order, prompts=(tuple(prompt),), constraint=constraint)
    return ChatRequest(order, stream, tuple(warnings))


def _read_logprobs(fields: Fields) -> int:
    """-1 none, 0 the sampled token, n also the n likeliest."""
    wanted = fields.flag("logprobs")
    top = sampling.read_top_logprobs(fields)
    if wanted is False and top:
        raise invalid("top_logprobs", "top_logprobs needs logprobs to be true")
    if wanted or top:
        return top or 0
    return -1
