"""A rerank request's body to one checked value. Needs no model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stoker.api.body import parse_object
from stoker.api.fields import Fields
from stoker.errors import InvalidRequest

MAX_DOCUMENTS = 2048


@dataclass(frozen=True, slots=True)
class RerankOrder:
    query: str
    documents: tuple[str, ...]
    top_n: int | None
    returns_documents: bool
    instruction: str | None
    truncate: bool


def read_order(body: bytes) -> RerankOrder:
    """Raises InvalidRequest."""
    fields = Fields(parse_object(body))
    query = fields.string("query")
    if not query:
        raise _invalid("query must be a non-empty string", "query")
    fields.string("model")
    truncate = fields.flag("truncate")
    return RerankOrder(
        query=query,
        documents=_read_documents(fields.raw("documents")),
        top_n=fields.integer("top_n", 1),
        returns_documents=bool(fields.flag("return_documents")),
        instruction=fields.string("instruction") or None,
        truncate=truncate is not False,
    )


def _read_documents(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise _invalid("documents must be a non-empty array of strings or objects with a text", "documents")
    if len(value) > MAX_DOCUMENTS:
        raise _invalid(f"documents must hold at most {MAX_DOCUMENTS} items, not {len(value)}", "documents")
    texts = []
    for index, item in enumerate(value):
        text = item.get("text") if isinstance(item, dict) else item
        if not isinstance(text, str) or not text:
            raise _invalid(
                f"documents[{index}] must be a non-empty string or an object with one", "documents"
            )
        texts.append(text)
    return tuple(texts)


def _invalid(message: str, param: str) -> InvalidRequest:
    return InvalidRequest(message, param=param, type="invalid_request_error")
