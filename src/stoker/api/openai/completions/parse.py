"""A text completion's body to one checked value. Tokenizing included: after this only the engine
can refuse the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from starlette.datastructures import Headers

from stoker.api.body import parse_object
from stoker.api.fields import Fields, as_integer, invalid
from stoker.api.generation import Order
from stoker.api.model_field import read_model
from stoker.api.openai import sampling, structured
from stoker.api.session import session_label
from stoker.api.state import ApiState

MAX_PROMPTS = 64  # in one request; as many requests may wait in the engine's queue


@dataclass(frozen=True, slots=True)
class TextRequest:
    order: Order
    echoes: tuple[str, ...]  # per choice, text that goes before the completion
    stream: sampling.StreamOptions
    warnings: tuple[str, ...]  # for the Warning header


def parse_text(state: ApiState, body: bytes, headers: Headers) -> TextRequest:
    """Raises InvalidRequest."""
    fields = Fields(parse_object(body))
    read_model(fields, state.settings)
    prompts = _read_prompts(fields.raw("prompt"), state)
    sampling.read_common(fields)
    stream = sampling.read_stream(fields)
    n = sampling.read_n(fields)
    _refuse_unsupported(fields, n)
    logprobs = _read_logprobs(fields)
    echo = bool(fields.flag("echo"))
    if echo and logprobs >= 0:
        raise invalid("echo", "echo cannot be combined with logprobs: the prompt's own are not computed")
    output = structured.read_structured(state, fields.body)
    order = Order(
        id=f"cmpl-{uuid4()}",
        prompts=tuple(tuple(prompt.ids) for prompt in prompts),
        sampling=sampling.read_sampling(fields, state, thinking=None, logprobs=logprobs),
        max_tokens=sampling.read_max_tokens(fields, state),
        ignore_eos=bool(fields.flag("ignore_eos")),
        n=n,
        stops=sampling.read_stops(fields),
        session=session_label(fields.body, headers),
        constraint=output.constraint,
    )
    return TextRequest(
        order,
        tuple(prompt.text(state) if echo else "" for prompt in prompts for _ in range(n)),
        stream,
        output.warnings,
    )


@dataclass(frozen=True, slots=True)
class _Prompt:
    ids: list[int]
    given: str | None  # the text, when the client sent text

    def text(self, state: ApiState) -> str:
        return state.text.tokenizer.decode(self.ids) if self.given is None else self.given


def _read_prompts(value: Any, state: ApiState) -> list[_Prompt]:
    """A string, a list of strings, token ids, or a list of lists of token ids."""
    if isinstance(value, str):
        return [_read_prompt(value, state)]
    if not isinstance(value, list) or not value:
        raise _not_a_prompt()
    if as_integer(value[0]) is not None:
        return [_read_prompt(value, state)]
    if len(value) > MAX_PROMPTS:
        raise invalid("prompt", f"prompt must hold at most {MAX_PROMPTS} prompts")
    return [_read_prompt(item, state) for item in value]


def _read_prompt(value: Any, state: ApiState) -> _Prompt:
    if isinstance(value, str) and value:
        encoded = state.text.prompt_from_text(value)
        if not encoded:
            raise _not_a_prompt()
        return _Prompt(encoded, value)
    if not isinstance(value, list) or not value:
        raise _not_a_prompt()
    vocab_size = state.text.tokenizer.vocab_size
    ids: list[int] = []
    for item in value:
        token_id = as_integer(item)
        if token_id is None:
            raise _not_a_prompt()
        if not 0 <= token_id < vocab_size:
            raise invalid("prompt", f"prompt names token {item}; the vocabulary has {vocab_size} tokens")
        ids.append(token_id)
    return _Prompt(ids, None)


def _not_a_prompt() -> Exception:
    return invalid("prompt", "prompt must be a non-empty string")


def _refuse_unsupported(fields: Fields, n: int) -> None:
    if fields.string("suffix"):
        raise invalid("suffix", "suffix is not supported")
    best_of = fields.integer("best_of", 1, 20)
    if best_of is not None and best_of != n:
        raise invalid("best_of", f"best_of must equal n, which is {n}")


def _read_logprobs(fields: Fields) -> int:
    """OpenAI's integer form and the contract's boolean one with `top_logprobs`.
    -1 none, 0 the sampled token, n also the n likeliest."""
    value = fields.raw("logprobs")
    top = sampling.read_top_logprobs(fields)
    if value is not None and not isinstance(value, bool) and as_integer(value) is None:
        raise invalid("logprobs", "logprobs must be of type bool")
    if value is False and top:
        raise invalid("top_logprobs", "top_logprobs needs logprobs to be true")
    if isinstance(value, bool) or value is None:
        return (top or 0) if value or top else -1
    count = fields.integer("logprobs", 0, sampling.MAX_TOP_LOGPROBS) or 0
    return max(count, top or 0)
