"""The page of a response's input items that a query asks for."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import QueryParams

from stoker.api.fields import invalid
from stoker.api.openai.responses.items import Item

_MAX_LIMIT = 100
_DEFAULT_LIMIT = 20


def list_items(items: list[Item], query: QueryParams) -> dict[str, Any]:
    """Newest first unless `order` is asc; `after` names the last item of the page before."""
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise invalid("order", "order must be one of 'asc', 'desc'")
    limit = _read_limit(query.get("limit"))
    ordered = items if order == "asc" else items[::-1]
    after = query.get("after")
    if after is not None:
        position = next((i for i, item in enumerate(ordered) if item["id"] == after), None)
        if position is None:
            raise invalid("after", "after must be the id of an item of this list")
        ordered = ordered[position + 1 :]
    page = [_shown(item) for item in ordered[:limit]]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(ordered) > limit,
    }


def _read_limit(value: str | None) -> int:
    if value is None:
        return _DEFAULT_LIMIT
    if not value.isascii() or not value.isdigit() or not 1 <= int(value[:4]) <= _MAX_LIMIT:
        raise invalid("limit", f"limit must be an integer from 1 to {_MAX_LIMIT}")
    return int(value[:4])


def _shown(item: Item) -> Item:
    """Messages in their long form: content as parts, and a status."""
    if item["type"] != "message":
        return item
    content = item.get("content")
    if isinstance(content, str):
        if item.get("role") == "assistant":
            content = [{"type": "output_text", "text": content, "annotations": []}]
        else:
            content = [{"type": "input_text", "text": content}]
    return {"status": "completed", **item, "content": content or []}
