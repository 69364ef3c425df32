"""Documentation models of text completions. They check nothing: parse.py does."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stoker.api.documented import Documented
from stoker.api.openai.schema import FinishReason, GenerationFields, LogprobEntry, Usage

Text = Annotated[str, Field(min_length=1)]
TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]


class CompletionRequest(GenerationFields):
    prompt: Text | TokenIds | Annotated[list[Text | TokenIds], Field(min_length=1, max_length=64)] = Field(
        description="A text, token ids, or a list of either; each is continued n times."
    )
    logprobs: bool | Annotated[int, Field(ge=0, le=20)] | None = Field(
        None, description="true: the reply's tokens; a number: also that many of the likeliest ones."
    )
    top_logprobs: Annotated[int, Field(ge=-1, le=20)] | None = None
    echo: bool | None = Field(None, description="Put the prompt before the completion.")
    best_of: Annotated[int, Field(ge=1, le=20)] | None = Field(None, description="Must equal n.")
    suffix: str | None = Field(None, description="Not supported; must be empty.")


class CompletionLogprobs(Documented):
    """The legacy lists, and the entries that chat completions have."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int]
    content: list[LogprobEntry]


class CompletionChoice(Documented):
    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: FinishReason


class Completion(Documented):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage


class CompletionChunkChoice(Documented):
    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: FinishReason | None


class CompletionChunk(Documented):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChunkChoice]
    usage: Usage | None = None
