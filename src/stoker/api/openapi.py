"""What /openapi.json says beyond the routes: request bodies, error answers, streams.

Bodies are parsed by the protocols themselves (their error messages are part of the contract), so
the models named here only document; tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from stoker import __version__
from stoker.api.documented import Documented
from stoker.api.fields import INT64_MAX

_REF = "#/components/schemas/{model}"


class ErrorDetail(Documented):
    message: str
    type: str | None = None
    param: str | None = None
    code: str | None = None


class ErrorAnswer(Documented):
    """Every refusal and failure."""

    error: ErrorDetail


_REFUSALS = {
    400: "The request is malformed, out of range, or does not fit the context.",
    401: "The API key is missing or wrong.",
    403: "The Host or Origin is not allowed.",
    408: "The body took too long to arrive.",
    413: "The body is too large.",
    429: "Too many requests wait already.",
    499: "The client went away.",
    500: "The generation failed.",
    503: "The server is shutting down.",
}

Docs = dict[str, Any]


def error_docs(*statuses: int, error: type[BaseModel] = ErrorAnswer) -> dict[int | str, Docs]:
    words = {**_REFUSALS, 404: "There is no such thing, or no longer."}
    return {status: {"model": error, "description": words[status]} for status in statuses}


def generation_docs(
    request: type[BaseModel],
    reply: type[BaseModel],
    chunk: type[BaseModel] | None,
    *,
    error: type[BaseModel] = ErrorAnswer,
    done: str | None = "[DONE]",
    further: tuple[int, ...] = (),
) -> Docs:
    """Keyword arguments for the route of an endpoint that answers whole or, where there is a
    `chunk`, as a stream of those, the last data being `done`. `further` statuses are refusals too."""
    warning = {"description": "What was asked for and is not enforced.", "schema": {"type": "string"}}
    answer: Docs = {"model": reply, "description": "The answer.", "headers": {"Warning": warning}}
    if chunk is not None:
        data = {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"anyOf": [_ref(chunk), _ref(error)]},
        }
        choices = [data] if done is None else [{"const": done}, data]
        event = {"type": "object", "properties": {"data": {"anyOf": choices}}}
        answer["content"] = {"text/event-stream": {"itemSchema": event}}  # OpenAPI 3.2's word
        answer["description"] = "The reply; with `stream`, events" + (f", then `{done}`." if done else ".")
    return {
        "responses": {200: answer, **error_docs(*_REFUSALS, *further, error=error)},
        "openapi_extra": {
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": _ref(request)}},
            },
        },
    }


def json_docs(request: type[BaseModel], reply: type[BaseModel], description: str) -> Docs:
    """Keyword arguments for a route that takes one JSON object and answers with another."""
    return {
        "responses": {200: {"model": reply, "description": description}, **error_docs(*_REFUSALS)},
        "openapi_extra": {
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": _ref(request)}},
            },
        },
    }


def read_docs(
    reply: type[BaseModel],
    description: str,
    *,
    error: type[BaseModel] = ErrorAnswer,
    further: tuple[int, ...] = (),
) -> Docs:
    """Keyword arguments for a route that has no body; `further` are refusals it may answer with."""
    return {
        "responses": {
            200: {"model": reply, "description": description},
            **error_docs(401, 403, 503, *further, error=error),
        }
    }


def install(app: FastAPI, models: Sequence[type[BaseModel]]) -> None:
    """Makes `app.openapi` (and so /docs) complete: adds the models that `generation_docs` only
    refers to by name."""

    def describe() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = get_openapi(
                title=app.title, version=__version__, description=app.description, routes=app.routes
            )
            document["components"]["schemas"].update(_definitions(models))
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = describe  # type: ignore[method-assign]


def _ref(model: type[BaseModel]) -> Docs:
    return {"$ref": _REF.format(model=model.__name__)}


def _definitions(models: Sequence[type[BaseModel]]) -> dict[str, Any]:
    pairs: list[tuple[type[BaseModel], Literal["validation"]]] = [(model, "validation") for model in models]
    _, document = models_json_schema(pairs, ref_template=_REF)
    definitions: dict[str, Any] = document.get("$defs", {})
    _bound_integers(definitions)
    return definitions


def _bound_integers(schema: Any) -> None:
    """Writes the limit that `Fields.integer` puts on every integer into those that name none."""
    if isinstance(schema, list):
        for item in schema:
            _bound_integers(item)
    elif isinstance(schema, dict):
        if schema.get("type") == "integer" and not schema.keys() & {"maximum", "exclusiveMaximum"}:
            schema["maximum"] = INT64_MAX
        for item in schema.values():
            _bound_integers(item)
