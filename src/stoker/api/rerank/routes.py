"""The route, under the paths that Jina's and Cohere's clients use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.api.body import read_body
from stoker.api.embed_jobs import on_worker, require_embed, result_of
from stoker.api.errors import json_response
from stoker.api.openapi import json_docs
from stoker.api.rerank import schema
from stoker.api.rerank.parse import RerankOrder, read_order
from stoker.api.state import ApiState
from stoker.errors import InvalidRequest

if TYPE_CHECKING:
    from stoker.embed.lane import Job
    from stoker.embed.passes import Vectors

ALIASES = ("/rerank", "/v2/rerank")


def rerank_router(state: ApiState) -> APIRouter:
    router = APIRouter(tags=["Reranking"])

    @router.post(
        "/v1/rerank",
        summary="Order documents by relevance",
        **json_docs(schema.RerankRequest, schema.RerankReply, "The documents' places, best first."),
    )
    async def rerank(request: Request) -> Response:
        body = await read_body(request)
        order = await on_worker(state, lambda: read_order(body))
        model_id, job, num_tokens = await on_worker(state, lambda: _start(state, order))
        scores = await result_of(state, request, job)
        return json_response(_reply(order, scores, model_id, num_tokens))

    for path in ALIASES:
        router.add_api_route(path, rerank, methods=["POST"], include_in_schema=False)
    return router


def _start(state: ApiState, order: RerankOrder) -> tuple[str, Job, int]:
    loaded = require_embed(state).reranker()
    if loaded is None:
        raise InvalidRequest(
            "no reranking model is served; download a cross-encoder such as BAAI/bge-reranker-v2-m3 and "
            "restart with --rerank-model and its name",
            type="invalid_request_error",
        )
    model = loaded.model
    items = model.tokenize(order.query, order.documents, order.instruction, truncate=order.truncate)
    return model.id, loaded.start(model.passes(items), len(items), 1), sum(len(item.ids) for item in items)


def _reply(order: RerankOrder, scores: Vectors, model_id: str, num_tokens: int) -> dict[str, Any]:
    relevance = scores[:, 0].tolist()
    ranked = sorted(range(len(relevance)), key=lambda index: (-relevance[index], index))
    results: list[dict[str, Any]] = []
    for index in ranked[: order.top_n]:
        result: dict[str, Any] = {"index": index, "relevance_score": relevance[index]}
        if order.returns_documents:
            result["document"] = {"text": order.documents[index]}
        results.append(result)
    return {
        "id": f"rerank-{uuid4()}",
        "object": "list",
        "model": model_id,
        "results": results,
        "usage": {"prompt_tokens": num_tokens, "total_tokens": num_tokens},
    }
