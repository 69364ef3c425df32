"""The words every part shares: what a request asks of the engine and what comes back.

Plain values only. No torch, no HTTP, no text: the engine speaks token ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one row picks its next token. Filled by the front, already validated.

    Order of operations: logit_bias, repetition/presence/frequency penalties (these form the
    distribution that logprobs report), then temperature, top-k, top-p, min-p, XTC, draw.
    """

    temperature: float = 0.7  # 0 = greedy
    top_p: float = 0.0  # nucleus mass; 0 (or 1) = off
    top_k: int = 0  # 0 = off
    min_p: float = 0.0  # keep tokens with p >= min_p * p(top); 0 = off
    xtc_probability: float = 0.0  # chance per step of applying XTC
    xtc_threshold: float = 0.0
    seed: int | None = None  # None = fresh entropy, chosen by the engine at submit
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    repetition_penalty: float = 1.0  # 1 = off; divides positive and multiplies negative logits
    repetition_context_size: int = 20  # recent tokens (prompt included); 0 = whole history
    presence_penalty: float = 0.0
    presence_context_size: int = 20
    frequency_penalty: float = 0.0
    frequency_context_size: int = 20
    logprobs: int = -1  # -1 = none, 0 = the sampled token only, n = and the n most likely


ConstraintKind = Literal["json_schema", "json_object", "regex", "choice", "lark", "gbnf"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """What the generated text must look like. `source` depends on the kind:

    json_schema  the schema as JSON text
    json_object  empty: any JSON object
    regex        one expression that the whole text must match
    choice       a JSON array of strings, of which the text is one
    lark         a grammar in llguidance's Lark dialect (rule `start`; may embed %json; special
                 tokens are named as <tag>, other added tokens are plain text)
    gbnf         a grammar in llama.cpp's GBNF (rule `root`)
    """

    kind: ConstraintKind
    source: str = ""
    any_whitespace: bool = True  # JSON kinds: False = compact separators only
    free_until: str | None = None  # text is free up to and including this (a closing tag); then it holds
    free_opener: str | None = None  # free only if the first token is this tag; else it holds from the start


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt and how to continue it. Built by the front, read by the engine."""

    id: str  # appears in logs and responses
    prompt_ids: tuple[int, ...]  # at least one token
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int | None = None  # per choice; None = until EOS or the context is full
    eos_ids: frozenset[int] = frozenset()  # generation ends after one of these
    n: int = 1  # choices: rows that share the prompt's prefill
    session: str | None = None  # affinity label for the prefix cache; steers, never isolates
    namespace: str = ""  # what states depend on besides model and tokens (adapters); never mixed
    constraint: Constraint | None = None  # compile it first (engine.grammar): submit does not wait for it


@dataclass(frozen=True, slots=True)
class Alternative:
    """One candidate token and its natural-log probability."""

    token_id: int
    logprob: float


@dataclass(slots=True)
class TokenEvent:
    """One generated token. An EOS token is delivered too, with `is_eos` set.

    Never changed, but not frozen: that makes the constructor several times as slow, and there is one
    for every token.
    """

    index: int  # which choice, 0..n-1
    token_id: int
    is_eos: bool = False
    logprob: float | None = None  # when SamplingParams.logprobs >= 0
    top: tuple[Alternative, ...] = ()  # most likely first, SamplingParams.logprobs entries


@dataclass(frozen=True, slots=True)
class FinishEvent:
    """A choice has ended; no further event carries its index."""

    index: int
    reason: FinishReason


@dataclass(frozen=True, slots=True)
class PromptEvent:
    """The prompt has been admitted and prefilled; sent once, before the first token."""

    prompt_tokens: int
    cached_tokens: int  # of those, served from a cache


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """The request failed after admission; ends every choice. The trace is in the log."""

    message: str


Event = PromptEvent | TokenEvent | FinishEvent | ErrorEvent
