"""The sampling fields that chat and text completions have in common: read, checked, resolved.

A value comes from the request, else the operator's setting, else the model's
generation_config.json, else a built-in one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

from stoker.api.fields import INT64_MAX, Fields, invalid, is_number
from stoker.api.state import ApiState
from stoker.core import SamplingParams

T = TypeVar("T")

MAX_CHOICES = 8
MAX_TOP_LOGPROBS = 20
_MAX_STOPS = 256
_PENALTY_LIMIT = 100
_BIAS_LIMIT = 1e5  # beyond this a bias bans or forces a token anyway, and float32 stays exact enough
_GREEDY_BELOW = 1e-5  # dividing logits by less overflows; the draw is the likeliest token already
_SMALLEST_PENALTY = 0.01
_TOKEN_ID = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Resolver:
    """Numbers for the fields a request leaves out."""

    state: ApiState
    thinking: bool | None  # on keeps the model's temperature; off or unknown caps it

    def temperature(self) -> float:
        if self.state.settings.temperature is not None:
            return self.state.settings.temperature
        return self.state.text.generation_defaults.unset_temperature(bool(self.thinking))

    def top_p(self) -> float:
        return _first(self.state.settings.top_p, self.state.text.generation_defaults.top_p, 0.0)

    def top_k(self) -> int:
        return int(_first(self.state.settings.top_k, self.state.text.generation_defaults.top_k, 0))

    def min_p(self) -> float:
        return _first(self.state.text.generation_defaults.min_p, 0.0)

    def repetition_penalty(self) -> float:
        return _first(self.state.text.generation_defaults.repetition_penalty, 1.0)


def _first(*values: T | None) -> T:
    return next(value for value in values if value is not None)


def read_sampling(fields: Fields, state: ApiState, *, thinking: bool | None, logprobs: int) -> SamplingParams:
    """`logprobs` has been read by the endpoint, whose fields for it differ."""
    defaults = Resolver(state, thinking)
    context = state.engine.max_context
    temperature = _or(fields.number("temperature", 0, 100), defaults.temperature())
    repetition = _or(fields.number("repetition_penalty", 0, _PENALTY_LIMIT), defaults.repetition_penalty())
    seed = fields.integer("seed", -(2**63), 2**64 - 1)
    return SamplingParams(
        temperature=temperature if temperature >= _GREEDY_BELOW else 0.0,
        top_p=_or(fields.number("top_p", 0, 1), defaults.top_p()),
        top_k=min(_or(fields.integer("top_k", 0), defaults.top_k()), state.text.tokenizer.vocab_size),
        min_p=_or(fields.number("min_p", 0, 1), defaults.min_p()),
        xtc_probability=_or(fields.number("xtc_probability", 0, 1), 0.0),
        xtc_threshold=_or(fields.number("xtc_threshold", 0, 1), 0.0),
        seed=None if seed is None else seed & INT64_MAX,
        logit_bias=read_logit_bias(fields, state.text.tokenizer.vocab_size),
        # 0 means off, as in the reference; values next to 0 would overflow the logits.
        repetition_penalty=max(repetition, _SMALLEST_PENALTY) if repetition else 1.0,
        repetition_context_size=_window(fields, "repetition_context_size", context),
        presence_penalty=_penalty(fields, "presence_penalty"),
        presence_context_size=_window(fields, "presence_context_size", context),
        frequency_penalty=_penalty(fields, "frequency_penalty"),
        frequency_context_size=_window(fields, "frequency_context_size", context),
        logprobs=logprobs,
    )


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def _penalty(fields: Fields, name: str) -> float:
    return fields.number(name, -_PENALTY_LIMIT, _PENALTY_LIMIT) or 0.0


def _window(fields: Fields, name: str, context: int) -> int:
    return min(_or(fields.integer(name, 0), 20), context)


def read_logit_bias(fields: Fields, vocab_size: int) -> dict[int, float]:
    table = fields.raw("logit_bias")
    if table is None:
        return {}
    wrong = invalid("logit_bias", "logit_bias must be a dict of int to float")
    if not isinstance(table, dict):
        raise wrong
    biases: dict[int, float] = {}
    for key, value in table.items():
        if not _TOKEN_ID.fullmatch(key) or not is_number(value):
            raise wrong
        token_id = int(key)
        if not 0 <= token_id < vocab_size:
            raise invalid(
                "logit_bias", f"logit_bias names token {key}; the vocabulary has {vocab_size} tokens"
            )
        biases[token_id] = float(max(-_BIAS_LIMIT, min(_BIAS_LIMIT, value)))
    return biases


def read_top_logprobs(fields: Fields) -> int | None:
    """`top_logprobs`; -1 is the reference's word for unset."""
    if fields.raw("top_logprobs") == -1 and fields.integer("top_logprobs") == -1:
        return None
    return fields.integer("top_logprobs", 0, MAX_TOP_LOGPROBS)


def read_max_tokens(fields: Fields, state: ApiState) -> int | None:
    """The ceiling of a reply; a large one is no error, the context caps it."""
    older = fields.integer("max_tokens", 1)
    newer = fields.integer("max_completion_tokens", 1)
    ceiling = next((v for v in (newer, older, state.settings.max_tokens) if v is not None), None)
    return None if ceiling is None else min(ceiling, state.engine.max_context)


def read_n(fields: Fields) -> int:
    return fields.integer("n", 1, MAX_CHOICES) or 1


def read_stops(fields: Fields) -> tuple[str, ...]:
    value = fields.raw("stop")
    if value is None:
        return ()
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise invalid("stop", "stop must be a string or an array of strings")
    if len(stops) > _MAX_STOPS:
        raise invalid("stop", f"stop must hold at most {_MAX_STOPS} strings")
    return tuple(stop for stop in stops if stop)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """`usage_chunk`: the client asked for OpenAI's extra last chunk with no choices."""

    stream: bool
    usage_chunk: bool


def read_stream(fields: Fields) -> StreamOptions:
    stream = bool(fields.flag("stream"))
    options = fields.nested("stream_options")
    return StreamOptions(stream, bool(options and options.flag("include_usage")))


def read_common(fields: Fields) -> None:
    """Fields that are accepted and change nothing, checked only as far as a mistake would show."""
    fields.string("user")
    adapter = fields.string("adapter")
    if adapter not in (None, "", "none"):
        # Answering without it would look like an answer with it.
        raise invalid("adapter", f"unknown adapter {adapter!r}; mounted: none")
