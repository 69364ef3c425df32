"""The route: read, tokenize on a worker, wait for the lane, answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.api.body import read_body
from stoker.api.embed_jobs import on_worker, require_embed, result_of
from stoker.api.errors import json_response
from stoker.api.openai.embeddings import schema
from stoker.api.openai.embeddings.parse import EmbeddingRequest, read_request, tokenize
from stoker.api.openai.embeddings.reply import embeddings_object
from stoker.api.openapi import json_docs
from stoker.api.state import ApiState
from stoker.errors import InvalidRequest

if TYPE_CHECKING:
    from stoker.embed.passes import Vectors
    from stoker.embed.results import Embedding


def embeddings_router(state: ApiState) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/v1/embeddings",
        summary="Vectors of texts",
        tags=["OpenAI"],
        **json_docs(schema.EmbeddingsRequest, schema.EmbeddingsReply, "One vector per input, in order."),
    )
    async def create_embeddings(request: Request) -> Response:
        body = await read_body(request)
        asked = await on_worker(state, lambda: read_request(body, state.settings))
        model_id, embedding, num_tokens = await on_worker(state, lambda: _start(state, asked))
        computed = await result_of(state, request, embedding.job)

        def answer() -> Response:
            vectors = embedding.vectors(computed)
            return json_response(_reply(asked, vectors, model=model_id, num_tokens=num_tokens))

        return await on_worker(state, answer)

    return router


def _start(state: ApiState, asked: EmbeddingRequest) -> tuple[str, Embedding, int]:
    from stoker.embed.results import Embedding  # the front imports without torch

    service = require_embed(state)
    loaded = service.embedding()
    if loaded is None:
        raise no_embedding_model(state)
    items = tokenize(asked, loaded.model)
    embedding = Embedding(loaded.model, loaded.lane, service.results, items)
    return loaded.model.id, embedding, sum(len(item.ids) for item in items)


def _reply(asked: EmbeddingRequest, vectors: Vectors, *, model: str, num_tokens: int) -> dict[str, Any]:
    from stoker.embed.model import shorten

    vectors = shorten(vectors, asked.dimensions)
    return embeddings_object(vectors, model=model, num_tokens=num_tokens, encoding=asked.encoding)


def no_embedding_model(state: ApiState) -> InvalidRequest:
    return InvalidRequest(
        f"the served model {state.text.id} is not an embedding model, and there is none beside it; serve "
        "one: `stoker get all-minilm-l6-v2`, then restart with --embedding-model all-minilm-l6-v2",
        type="invalid_request_error",
    )
