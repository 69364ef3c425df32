"""A conversation to one Order, for every protocol that has conversations.

The input is a plain dict in the shape of an OpenAI chat body; the other protocols convert theirs
into it first. So templates, tools, reasoning, structured output and sessions are read in one place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from starlette.datastructures import Headers

from stoker.api.fields import Fields, invalid
from stoker.api.generation import Order
from stoker.api.media.parts import check_media
from stoker.api.model_field import read_model
from stoker.api.openai import sampling, structured
from stoker.api.openai.chat.ending import read_ending
from stoker.api.openai.chat.enforce import with_tools
from stoker.api.openai.chat.thinking import after_thinking, read_budget, read_thinking
from stoker.api.openai.chat.tools import read_tools
from stoker.api.session import session_label
from stoker.api.state import ApiState
from stoker.chat.messages import normalize_messages
from stoker.chat.reader import reading_for


@dataclass(frozen=True, slots=True)
class ChatOrder:
    order: Order
    warnings: tuple[str, ...]  # for the Warning header


def make_chat_order(state: ApiState, body: dict[str, Any], headers: Headers, *, id: str) -> ChatOrder:
    """Reads messages, tools, tool_choice, parallel_tool_calls, thinking, response format, sampling
    fields and session of `body`; ignores everything else. Raises InvalidRequest (TemplateError
    included) before anything is submitted."""
    fields = Fields(body)
    read_model(fields, state.settings)
    messages = fields.raw("messages")
    check_media(messages, allow_private=state.settings.allow_private_media)
    sampling.read_common(fields)
    tools = read_tools(fields)
    ending = read_ending(fields)
    thinking = read_thinking(fields, state.settings.thinking)
    logprobs = _read_logprobs(fields)
    params = sampling.read_sampling(fields, state, thinking=thinking.enabled, logprobs=logprobs)
    output = structured.read_structured(state, fields.body)
    if output.instruction is not None:
        plain = normalize_messages(messages, state.text.id)
        messages = structured.with_instruction(plain, output.instruction)
    order = Order(
        id=id,
        prompts=(),
        sampling=params,
        max_tokens=sampling.read_max_tokens(fields, state),
        ignore_eos=bool(fields.flag("ignore_eos")),
        n=sampling.read_n(fields),
        stops=sampling.read_stops(fields),
        session=session_label(fields.body, headers),
        thinking_budget=read_budget(fields),
    )
    text = state.text
    rendered = text.render(
        messages, tools.in_prompt, thinking.template_kwargs, ending.opens_turn, ending.continues
    )
    prompt = text.prompt_from_rendered(rendered)
    if not prompt:
        raise invalid("messages", "messages render to an empty prompt")
    reading = reading_for(
        text.template.sources.values() if text.template else (),
        rendered,
        tools.callable,
        parallel=tools.parallel,
        drop_calls=tools.mode == "none",
        prefill=normalize_messages(messages)[-1]["content"] if ending.continues else "",
    )
    if ending.continues and (output.constraint or tools.mode not in ("auto", "none")):
        raise invalid("messages", "a reply cannot be both continued and held to a format or a tool_choice")
    constraint = after_thinking(output.constraint, reading, rendered) if output.constraint else None
    constraint, warning = with_tools(state, tools, reading, rendered, constraint)
    budget = order.thinking_budget if reading and (reading.reasoning or reading.is_harmony) else None
    order = replace(
        order, prompts=(tuple(prompt),), reading=reading, constraint=constraint, thinking_budget=budget
    )
    return ChatOrder(order, (*output.warnings, *((warning,) if warning else ())))


def _read_logprobs(fields: Fields) -> int:
    """-1 none, 0 the sampled token, n also the n likeliest."""
    wanted = fields.flag("logprobs")
    top = sampling.read_top_logprobs(fields)
    if wanted is False and top:
        raise invalid("top_logprobs", "top_logprobs needs logprobs to be true")
    if wanted or top:
        return top or 0
    return -1
