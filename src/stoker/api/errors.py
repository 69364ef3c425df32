"""Errors on the wire: which JSON shape each protocol wraps a StokerError in.

Decides no status; `status`, `type` and `code` come with the exception (stoker/errors.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from starlette.responses import Response

from stoker.errors import StokerError

Body = dict[str, Any]


class RequestTimeout(StokerError):
    """The body did not arrive in time."""

    status = 408
    type = "invalid_request_error"


class RouteNotFound(StokerError):
    """No such method and path. Every surface answers it in the same words."""

    status = 404

    def __init__(self) -> None:
        super().__init__("not found")


def internal_error() -> StokerError:
    """For an exception nobody expected: its text may hold what clients should not see."""
    return StokerError("internal error; the server's log has the details")


def openai_shape(error: StokerError) -> Body:
    """`{"error": {"message", "type"?, "param"?, "code"?}}`; a simple refusal carries only the message."""
    detail: Body = {"message": error.message}
    if error.type is not None:
        detail["type"] = error.type
        if error.param is not None:
            detail["param"] = error.param
    if error.code is not None:
        detail["code"] = error.code
    return {"error": detail}


def anthropic_shape(error: StokerError) -> Body:
    kind = "invalid_request_error" if error.status < 500 else "api_error"
    return {
        "type": "error",
        "error": {"type": kind, "message": error.message},
        "request_id": new_request_id(),
    }


def responses_shape(error: StokerError) -> Body:
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return {"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}}


def speech_shape(error: StokerError) -> Body:
    default = "invalid_request_error" if error.status < 500 else "server_error"
    return {"error": {"message": error.message, "type": error.type or default}}


def control_shape(error: StokerError) -> Body:
    return {"ok": False, "error": error.message}


# By path prefix; whatever is not listed answers in OpenAI's shape.
_SHAPES: tuple[tuple[str, Callable[[StokerError], Body]], ...] = (
    ("/v1/messages", anthropic_shape),
    ("/v1/responses", responses_shape),
    ("/v1/audio/", speech_shape),
    ("/api/", control_shape),
)


def error_body(path: str, error: StokerError) -> Body:
    for prefix, shape in _SHAPES:
        if _under(path, prefix):
            # Messages and Responses clients parse a 404 of their own protocol; the rest is fixed.
            fixed = isinstance(error, RouteNotFound) and shape not in (anthropic_shape, responses_shape)
            return openai_shape(error) if fixed else shape(error)
    return openai_shape(error)


def error_response(path: str, error: StokerError, headers: Mapping[str, str] | None = None) -> Response:
    body = error_body(path, error)
    if error.retry_after_s is not None:
        headers = {"retry-after": str(error.retry_after_s), **(headers or {})}
    if "request_id" in body:
        headers = {"request-id": body["request_id"], **(headers or {})}
    return json_response(body, error.status, headers)


def new_request_id() -> str:
    """For logs of Anthropic's clients: in the `request-id` header, and in the body of an error."""
    return f"req_{uuid4().hex[:24]}"


def _under(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(prefix if prefix.endswith("/") else prefix + "/")


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Compact UTF-8 JSON."""
    content = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return Response(content, status, headers, media_type="application/json")
