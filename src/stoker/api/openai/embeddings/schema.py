"""Documentation models of embeddings. They check nothing: parse.py does."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stoker.api.documented import Documented

Text = Annotated[str, Field(min_length=1)]
TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=2048)]
IdLists = Annotated[list[TokenIds], Field(min_length=1, max_length=2048)]


class EmbeddingsRequest(Documented):
    """`null` counts as unset; unknown fields are ignored."""

    input: Text | Texts | TokenIds | IdLists = Field(
        description="A text, token ids, or a list of either. Ids are of the model's own tokenizer, "
        "or of OpenAI's when `model` names an OpenAI embedding model."
    )
    model: str | None = Field(None, description="Accepted; the served embedding model answers.")
    encoding_format: Literal["float", "base64"] | None = Field(
        None, description="base64: little-endian float32. Default float."
    )
    dimensions: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Only the first so many, scaled to length 1 again."
    )
    instruction: str | None = Field(
        None, description="The task, on the query side: `Instruct: ...\\nQuery:` goes before each text."
    )
    prompt_name: str | None = Field(
        None, description="One of the prompts in the model's own files, such as query."
    )
    input_type: str | None = Field(
        None, description="query or document: the prompt of that name, where the model has one."
    )
    truncate: bool | None = Field(None, description="Drop the end of a text that is too long.")
    user: str | None = Field(None, description="Accepted and ignored.")


class EmbeddingRow(Documented):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingsUsage(Documented):
    prompt_tokens: int
    total_tokens: int


class EmbeddingsReply(Documented):
    object: Literal["list"]
    data: list[EmbeddingRow]
    model: str
    usage: EmbeddingsUsage
