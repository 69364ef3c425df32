"""POST /v1/audio/transcriptions and /v1/audio/translations."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from stoker.api.disconnect import unless_disconnected
from stoker.api.speech import schema
from stoker.api.speech.answer import answer
from stoker.api.speech.fields import TranscriptionRequest, read_request
from stoker.api.speech.front import HasSpeech, Job, SpeechFront
from stoker.api.speech.stream import error_event, stream_events
from stoker.api.speech.upload import Upload, read_upload
from stoker.api.sse import EventStream
from stoker.speech.errors import SpeechUnavailable
from stoker.speech.orders import Outcome
from stoker.speech.types import Task
from stoker.speech.wav import Samples

HEARTBEAT_S = 10.0


def transcription_router(state: HasSpeech) -> APIRouter:
    router = APIRouter(tags=["Speech"])

    @router.post("/v1/audio/transcriptions", summary="Speech to text", **schema.TRANSCRIPTION_DOCS)
    async def transcribe(request: Request) -> Response:
        return await _answer(state, request, "transcribe")

    @router.post("/v1/audio/translations", summary="Speech to English text", **schema.TRANSCRIPTION_DOCS)
    async def translate(request: Request) -> Response:
        return await _answer(state, request, "translate")

    return router


def front_of(state: HasSpeech) -> SpeechFront:
    """Raises SpeechUnavailable on a server that was built without speech."""
    if state.speech is None:
        raise SpeechUnavailable("this server does not transcribe")
    return state.speech


async def _answer(state: HasSpeech, request: Request, task: Task) -> Response:
    front = front_of(state)
    upload = await read_upload(request, front.threads)
    with Job(front) as job:
        wanted, samples = await unless_disconnected(request.receive, _prepare(front, job, upload, task))
        if not wanted.stream:
            outcome = await unless_disconnected(request.receive, _run(front, job, samples, wanted))
            return answer(outcome, wanted.format, words=wanted.words)
    return _stream(front, samples, wanted)


async def _prepare(
    front: SpeechFront, job: Job, upload: Upload, task: Task
) -> tuple[TranscriptionRequest, Samples]:
    """Everything a client can be told before any work begins."""
    try:
        front.service.check_room()
        await job.run(front.service.checkpoint)
        wanted = read_request(upload.values, task)
        if wanted.order.vad is not None:
            await job.run(front.service.network)
    except BaseException:
        upload.audio.close()
        raise
    return wanted, await front.decode(job, upload.audio)


async def _run(front: SpeechFront, job: Job, samples: Samples, wanted: TranscriptionRequest) -> Outcome:
    return await job.run(lambda: front.service.transcribe(samples, wanted.order, should_stop=job.stopped))


def _stream(front: SpeechFront, samples: Samples, wanted: TranscriptionRequest) -> Response:
    job = Job(front)
    job.__enter__()

    def close() -> None:
        job.cancel()
        job.__exit__()

    events = stream_events(
        job,
        wanted,
        lambda on_segment, on_progress: front.service.transcribe(
            samples,
            wanted.order,
            on_segment=on_segment,
            on_progress=on_progress,
            should_stop=job.stopped,
        ),
    )
    return EventStream(events, error_frame=error_event, on_close=close, heartbeat_s=HEARTBEAT_S)
