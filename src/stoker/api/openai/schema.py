"""Documentation models that both completion endpoints share. They check nothing: parsing does."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from stoker.api.documented import Documented

Fraction = Annotated[float, Field(ge=0, le=1)]
Window = Annotated[int, Field(ge=0, le=2**63 - 1)]
Penalty = Annotated[float, Field(ge=-100, le=100)]
Count = Annotated[int, Field(ge=1, le=2**63 - 1)]
LogitBias = Annotated[
    dict[Annotated[str, Field(pattern="^[0-9]{1,18}$")], float],
    Field(json_schema_extra={"additionalProperties": False}),
]


class StreamOptions(Documented):
    include_usage: bool | None = Field(
        None, description="Report usage in an extra last chunk that has no choices, as OpenAI does."
    )


class GenerationFields(Documented):
    """Fields of every generation. `null` counts as unset; unknown fields are ignored."""

    model: str | None = Field(None, description="Any: the loaded model answers. Servers may insist on one.")
    stream: bool | None = Field(None, description="Answer with server-sent events.")
    stream_options: StreamOptions | None = None
    max_tokens: Count | None = Field(
        None, description="Ceiling of the reply. Without it: until the model stops or the context is full."
    )
    max_completion_tokens: Count | None = Field(None, description="Newer name of max_tokens; wins over it.")
    ignore_eos: bool | None = Field(None, description="Go on past the model's own end, to max_tokens.")
    n: Annotated[int, Field(ge=1, le=8)] | None = Field(None, description="Replies to the same prompt.")
    temperature: Annotated[float, Field(ge=0, le=100)] | None = Field(
        None, description="0 takes the likeliest token. Default: the model's own, else 0.7."
    )
    top_p: Fraction | None = Field(None, description="Nucleus mass; 0 is off.")
    top_k: Window | None = Field(None, description="0 is off.")
    min_p: Fraction | None = Field(None, description="Keep tokens with p >= min_p * p(top); 0 is off.")
    xtc_probability: Fraction | None = Field(None, description="Chance per step of applying XTC.")
    xtc_threshold: Fraction | None = None
    seed: Annotated[int, Field(ge=-(2**63), le=2**64 - 1)] | None = Field(
        None, description="Same request, same batch shape: same tokens."
    )
    logit_bias: LogitBias | None = Field(None, description="Token id to a number added to its logit.")
    repetition_penalty: Annotated[float, Field(ge=0, le=100)] | None = Field(
        None, description="1 (or 0) is off."
    )
    repetition_context_size: Window | None = Field(None, description="Recent tokens; 0 is all. Default 20.")
    presence_penalty: Penalty | None = None
    presence_context_size: Window | None = Field(None, description="Default 20.")
    frequency_penalty: Penalty | None = None
    frequency_context_size: Window | None = Field(None, description="Default 20.")
    stop: str | Annotated[list[str], Field(max_length=256)] | None = Field(
        None, description="Ends the reply where the text contains it; never part of the reply."
    )
    response_format: Any = Field(
        None,
        description="OpenAI's json_object and json_schema, enforced. What cannot be is told to the model and "
        "named in a Warning header; with strict it is refused.",
    )
    guided_grammar: Any = Field(None, description="The text's grammar: EBNF (GBNF, with ::=) or Lark.")
    guided_json: Any = Field(None, description="A JSON schema, as an object or as text.")
    guided_regex: Any = Field(None, description="A regular expression that the whole text matches.")
    guided_choice: Any = Field(None, description="An array of strings; the text is one of them.")
    structured_outputs: Any = Field(None, description="A JSON schema.")
    session_id: Any = Field(None, description="Label that steers the prompt cache.")
    prompt_cache_key: Any = Field(None, description="The same under OpenAI's name.")
    user: str | None = Field(None, description="Accepted and ignored.")
    metadata: Any = Field(None, description="Accepted and ignored.")
    store: Any = Field(None, description="Accepted and ignored: nothing is stored.")
    service_tier: Any = Field(None, description="Accepted and ignored.")


class PromptTokensDetails(Documented):
    cached_tokens: int


class Usage(Documented):
    prompt_tokens: int
    completion_tokens: int = Field(description="Includes the token that ended the reply.")
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    lane: Literal["serial", "batched"] = Field(description="How the server ran the request.")


class Candidate(Documented):
    id: int
    token: str
    logprob: Annotated[float, Field(le=0)]
    bytes: list[int] | None


class LogprobEntry(Candidate):
    top_logprobs: list[Candidate]


FinishReason = Literal["stop", "length"]
