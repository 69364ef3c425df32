"""The session label of a request: a hint for the prefix cache, from the body or a header.

Shared by every protocol. A label adds no history and isolates nothing.
"""

from __future__ import annotations

from typing import Any

from starlette.datastructures import Headers


def session_label(body: dict[str, Any], headers: Headers) -> str | None:
    """The first non-empty string of body `session_id`, body `prompt_cache_key`, header
    `x-session-affinity`, header `session_id`."""
    candidates = (
        body.get("session_id"),
        body.get("prompt_cache_key"),
        headers.get("x-session-affinity"),
        headers.get("session_id"),
    )
    return next((label for label in candidates if isinstance(label, str) and label), None)
