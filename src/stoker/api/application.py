"""The FastAPI application: routes of every protocol behind the guards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from fastapi import APIRouter, FastAPI
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from stoker.api import openapi
from stoker.api.admin.flush.routes import flush_router
from stoker.api.admin.session_close import session_close_router
from stoker.api.anthropic.routes import messages_router
from stoker.api.anthropic.schema import MessageEvent, MessageRequest
from stoker.api.errors import RouteNotFound, error_response
from stoker.api.guards import Guarded, guarded
from stoker.api.openai.chat.routes import chat_router
from stoker.api.openai.chat.schema import ChatCompletionChunk, ChatCompletionRequest
from stoker.api.openai.completions.routes import completions_router
from stoker.api.openai.completions.schema import CompletionChunk, CompletionRequest
from stoker.api.openai.embeddings.routes import embeddings_router
from stoker.api.openai.embeddings.schema import EmbeddingsRequest
from stoker.api.openai.models.routes import models_router
from stoker.api.openai.responses.routes import responses_router
from stoker.api.openai.responses.schema import ResponseEvent, ResponseRequest
from stoker.api.rerank.routes import rerank_router
from stoker.api.rerank.schema import RerankRequest
from stoker.api.speech.front import HasSpeech
from stoker.api.speech.routes import transcription_router
from stoker.api.speech.sessions import sessions_router
from stoker.api.speech.unload import unload_router
from stoker.api.state import ApiState
from stoker.api.system.routes import system_router
from stoker.errors import StokerError

_DESCRIPTION = "A private AI endpoint on one machine. Unknown fields are ignored; null counts as unset."

_DOCUMENTED = (
    ChatCompletionRequest,
    ChatCompletionChunk,
    CompletionRequest,
    CompletionChunk,
    MessageRequest,
    MessageEvent,
    ResponseRequest,
    ResponseEvent,
    EmbeddingsRequest,
    RerankRequest,
)


class AppState(Guarded, HasSpeech, Protocol):
    """What every server has."""


def create_app(state: ApiState) -> FastAPI:
    """One application for one engine. `state.drain.begin()` starts its graceful end."""
    routers = (
        system_router,
        chat_router,
        completions_router,
        models_router,
        messages_router,
        responses_router,
        embeddings_router,
        rerank_router,
        flush_router,
        session_close_router,
        transcription_router,
        sessions_router,
        unload_router,
    )
    app = assemble(state, [router(state) for router in routers], _DOCUMENTED)
    state.metrics.watch_engine(state.engine)
    if state.speech is not None:
        state.metrics.watch_speech(state.speech)
    if state.embed is not None:
        state.metrics.watch_embed(state.embed)
    return app


def assemble(state: AppState, routers: Sequence[APIRouter], documented: Sequence[type[BaseModel]]) -> FastAPI:
    """The routes behind the guards, with their documentation."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        state.drain.attach(asyncio.get_running_loop(), state.settings.shutdown_timeout_s)
        yield
        if state.speech is not None:
            state.speech.close()

    def guard(app: ASGIApp) -> ASGIApp:
        return guarded(app, state)

    app = FastAPI(
        title="stoker",
        description=_DESCRIPTION,
        lifespan=lifespan,
        middleware=[Middleware(guard)],
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    app.add_exception_handler(StokerError, _on_error)
    app.add_exception_handler(HTTPException, _on_no_route)
    for router in routers:
        app.include_router(router)
    openapi.install(app, documented)
    return app


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, StokerError)
    return error_response(request.url.path, error)


async def _on_no_route(request: Request, error: Exception) -> Response:
    """Starlette knows 404 and 405; the contract knows only the first."""
    return error_response(request.url.path, RouteNotFound())
