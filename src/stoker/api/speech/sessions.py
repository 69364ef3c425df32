"""/v1/audio/sessions: a take that is sent while it is being spoken."""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import cast
from weakref import WeakValueDictionary

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.api.body import parse_object, read_body
from stoker.api.disconnect import unless_disconnected
from stoker.api.errors import json_response
from stoker.api.fields import invalid
from stoker.api.speech import schema
from stoker.api.speech.answer import answer, segment_object, vocabulary_object
from stoker.api.speech.fields import ResponseFormat, read_session
from stoker.api.speech.front import HasSpeech, Job
from stoker.api.speech.routes import front_of
from stoker.api.speech.upload import media_type
from stoker.speech.audio import decode, gather
from stoker.speech.orders import seconds
from stoker.speech.session import Session
from stoker.speech.types import SAMPLE_RATE
from stoker.speech.wav import Samples


def sessions_router(state: HasSpeech) -> APIRouter:
    router = APIRouter(tags=["Speech"])
    turns = _Turns()

    @router.post("/v1/audio/sessions", summary="Begin a streaming take", **schema.SESSION_DOCS)
    async def create(request: Request) -> Response:
        front = front_of(state)
        body = await read_body(request)
        values = parse_object(body) if body.strip() else {}
        with Job(front) as job:
            await job.run(front.service.checkpoint)
            wanted = read_session(values)
            id, session = await job.run(lambda: front.sessions.open(wanted.order, wanted.format))
        usage = session.vocabulary
        return json_response(
            {
                "id": id,
                "model": session.model_id,
                "vocabulary": None if usage is None else vocabulary_object(usage),
            }
        )

    @router.post("/v1/audio/sessions/{session_id}/audio", summary="Send audio", **schema.AUDIO_DOCS)
    async def append(request: Request) -> Response:
        front = front_of(state)
        id = request.path_params["session_id"]
        front.sessions.find(id)
        # Chunks that come at the same time keep their order: the first to arrive is read first.
        async with turns.of(id):
            body = await read_body(request)
            session = front.sessions.find(id)
            if not body:
                raise invalid("audio", "empty audio chunk")
            raw = _raw_samples(request.headers.get("content-type", ""), body)
            with Job(front) as job:
                samples = raw if raw is not None else await job.run(lambda: gather(decode(BytesIO(body))))
            if session.append(samples):
                front.threads.submit(session.pump)
        return json_response(_receipt(id, session, words=session.order.options.word_timestamps))

    @router.post("/v1/audio/sessions/{session_id}/finish", summary="End it", **schema.FINISH_DOCS)
    async def finish(request: Request) -> Response:
        front = front_of(state)
        id = request.path_params["session_id"]
        await read_body(request)
        front.sessions.find(id)
        async with turns.of(id):
            session = front.sessions.take_out(id)
        with Job(front) as job:
            try:
                outcome = await unless_disconnected(
                    request.receive, job.run(lambda: session.finish(job.stopped))
                )
            finally:
                front.threads.submit(session.close)
        words = session.order.options.word_timestamps
        return answer(outcome, cast(ResponseFormat, session.format), words=words)

    @router.delete(
        "/v1/audio/sessions/{session_id}", status_code=204, summary="Discard it", **schema.DELETE_DOCS
    )
    async def discard(request: Request) -> Response:
        front = front_of(state)
        id = request.path_params["session_id"]
        session = front.sessions.take_out(id)
        with Job(front) as job:
            await job.run(session.close)
        return Response(status_code=204)

    return router


class _Turns:
    """A lock per session, for as long as somebody holds or awaits it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, id: str) -> asyncio.Lock:
        lock = self._locks.get(id)
        if lock is None:
            lock = self._locks[id] = asyncio.Lock()
        return lock


def _raw_samples(content_type: str, body: bytes) -> Samples | None:
    """The samples of a bare float32 chunk; None when the body is a file."""
    kind = media_type(content_type)
    if kind not in ("audio/pcm", "audio/l32") and "float32" not in content_type.lower():
        return None
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "rate" and value.strip().strip('"') != str(SAMPLE_RATE):
            raise invalid("audio", "float32 PCM chunks must be 16 kHz mono")
        if name.strip().lower() == "channels" and value.strip().strip('"') != "1":
            raise invalid("audio", "float32 PCM chunks must be 16 kHz mono")
    if len(body) % 4:
        raise invalid("audio", "float32 PCM chunk length must be a multiple of 4")
    samples = np.frombuffer(body, "<f4").astype(np.float32)
    return np.clip(np.nan_to_num(samples, nan=0.0, posinf=0.0, neginf=0.0), -1e6, 1e6)


def _receipt(id: str, session: Session, *, words: bool) -> dict[str, object]:
    receipt = session.receipt()
    return {
        "id": id,
        "samples": receipt.num_samples,
        "duration": seconds(receipt.num_samples),
        "speech": receipt.speech,
        "segments": [segment_object(segment, words=words) for segment in receipt.segments],
    }
