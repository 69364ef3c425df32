"""A take as server-sent events: text as its segments are finished, progress, the whole at the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from stoker.api.speech.answer import body_object
from stoker.api.speech.fields import ResponseFormat, TranscriptionRequest
from stoker.api.speech.front import Job
from stoker.errors import StokerError
from stoker.speech.orders import Outcome
from stoker.speech.ports import OnProgress, OnSegment
from stoker.speech.types import Segment

Transcribing = Callable[[OnSegment, OnProgress], Outcome]  # blocks


def event(name: str, data: dict[str, Any]) -> bytes:
    # Escaped to ASCII, so that no client can take a character for the end of a line.
    return f"event: {name}\ndata: {json.dumps({'type': name, **data}, separators=(',', ':'))}\n\n".encode()


def error_event(error: StokerError) -> bytes:
    return event("error", {"message": error.message})


async def stream_events(
    job: Job, request: TranscriptionRequest, transcribe: Transcribing
) -> AsyncGenerator[bytes, None]:
    """Raises what `transcribe` raises."""
    loop = asyncio.get_running_loop()
    events: asyncio.Queue[bytes | None] = asyncio.Queue()

    def put(item: bytes | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(events.put_nowait, item)

    def on_segment(segment: Segment) -> None:
        if segment.text.strip():
            put(event("transcript.text.delta", _delta(segment)))

    def on_progress(done: int, total: int) -> None:
        put(event("transcript.progress", {"done": done, "total": total}))

    def work() -> Outcome:
        try:
            return transcribe(on_segment, on_progress)
        finally:
            put(None)

    running = asyncio.ensure_future(job.run(work))
    try:
        while (item := await events.get()) is not None:
            yield item
        outcome = await running
    finally:
        running.cancel()
    # A subtitle format has no events of its own: its end carries the plain body.
    format: ResponseFormat = "verbose_json" if request.format == "verbose_json" else "json"
    yield event("transcript.text.done", body_object(outcome, format, words=request.words))


def _delta(segment: Segment) -> dict[str, Any]:
    place = {"id": segment.id, "start": round(segment.start_s, 3), "end": round(segment.end_s, 3)}
    return {"delta": segment.text, "segment": place}
