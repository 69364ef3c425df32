"""Documentation models of reranking. They check nothing: parse.py does."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stoker.api.documented import Documented

Text = Annotated[str, Field(min_length=1)]


class RerankText(Documented):
    text: Text


class RerankRequest(Documented):
    """`null` counts as unset; unknown fields are ignored."""

    query: Text
    documents: Annotated[list[Text | RerankText], Field(min_length=1, max_length=2048)]
    model: str | None = Field(None, description="Accepted; the served reranker answers.")
    top_n: Annotated[int, Field(ge=1)] | None = Field(None, description="Only the best. Default: all.")
    return_documents: bool | None = Field(None, description="Repeat each document's text.")
    instruction: str | None = Field(None, description="The task, for rerankers that take one.")
    truncate: bool | None = Field(
        None,
        description="false: a document too long for the model is an error. Default true: its end is dropped.",
    )


class RerankResult(Documented):
    index: int = Field(description="Of the document in the request.")
    relevance_score: Annotated[float, Field(ge=0, le=1)]
    document: RerankText | None = None


class RerankUsage(Documented):
    prompt_tokens: int
    total_tokens: int


class RerankReply(Documented):
    id: str
    object: Literal["list"]
    model: str
    results: list[RerankResult] = Field(description="Most relevant first.")
    usage: RerankUsage
