"""What embeddings and reranking share as requests: work on the service's threads, waiting for a job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request

from stoker.api.disconnect import unless_disconnected
from stoker.api.state import ApiState
from stoker.errors import InvalidRequest

if TYPE_CHECKING:
    from stoker.embed.lane import Job
    from stoker.embed.service import EmbedService

T = TypeVar("T")


async def on_worker(state: ApiState, work: Callable[[], T]) -> T:
    """Loading, tokenizing and writing numbers take long enough to stall every stream."""
    workers = state.workers if state.embed is None else state.embed.workers
    return await asyncio.get_running_loop().run_in_executor(workers, work)


def require_embed(state: ApiState) -> EmbedService:
    """Raises InvalidRequest where nothing of the kind is served."""
    if state.embed is None:
        raise InvalidRequest(
            f"the served model {state.text.id} only generates text; serve an embedding model for this",
            type="invalid_request_error",
        )
    return state.embed


async def result_of(state: ApiState, request: Request, job: Job) -> Any:
    """The job's rows. Raises RequestCancelled when the client goes first; the job ends then."""
    state.drain.enter(job)
    try:
        return await unless_disconnected(request.receive, _wait(job))
    finally:
        state.drain.leave(job)
        job.cancel()


async def _wait(job: Job) -> Any:
    return await asyncio.wrap_future(job.future)
