"""The body of a transcription request: fields and audio, from a form or from JSON."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from dataclasses import dataclass
from io import BytesIO
from typing import IO, Any

from starlette.requests import ClientDisconnect, Request

from stoker.api.body import off_loop, parse_object, read_body
from stoker.api.fields import invalid
from stoker.api.speech.fields import Values, form_values
from stoker.api.speech.multipart import read_form, too_large
from stoker.errors import InvalidRequest, RequestCancelled, StokerError

MAX_AUDIO_BYTES = 200 * 1024 * 1024


class UnsupportedContent(StokerError):
    status = 415
    type = "invalid_request_error"


@dataclass(frozen=True, slots=True)
class Upload:
    values: Values
    audio: IO[bytes]  # at its start


async def read_upload(request: Request, workers: Executor) -> Upload:
    """Raises UnsupportedContent, InvalidRequest or RequestCancelled. The caller closes the audio."""
    content_type = request.headers.get("content-type", "")
    kind = media_type(content_type)
    if kind == "multipart/form-data":
        return await _from_form(request, content_type)
    if kind == "application/json":
        body = await read_body(request)
        return await off_loop(workers, lambda: _from_json(body), len(body))
    raise UnsupportedContent("content-type must be multipart/form-data or application/json")


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


async def _from_form(request: Request, content_type: str) -> Upload:
    form = await read_form(_chunks(request), content_type, max_upload_bytes=MAX_AUDIO_BYTES)
    if form.upload is None:
        raise invalid("file", "`file` (audio upload) is required")
    if not form.upload_bytes:
        form.upload.close()
        raise _empty()
    return Upload(form_values(form.fields), form.upload)


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    try:
        async for chunk in request.stream():
            yield chunk
    except ClientDisconnect:
        raise RequestCancelled("the client went away while sending its request") from None


def _from_json(body: bytes) -> Upload:
    values = parse_object(body)
    audio = _decoded(_encoded(values))
    if not audio:
        raise _empty()
    if len(audio) > MAX_AUDIO_BYTES:
        raise too_large(MAX_AUDIO_BYTES)
    return Upload(values, BytesIO(audio))


def _encoded(values: Values) -> Any:
    if values.get("file") is not None:
        return values["file"]
    nested = values.get("input_audio")
    if isinstance(nested, dict) and nested.get("data") is not None:
        return nested["data"]
    return values.get("audio")


def _decoded(text: Any) -> bytes:
    if isinstance(text, str):
        if text[:5].lower() == "data:":
            head, comma, text = text.partition(",")
            if not comma or not head.lower().endswith(";base64"):
                text = "!"
        try:
            # Encoders break lines; every other foreign character is a mistake.
            return base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            pass
    raise invalid("file", "`file` must be base64 audio (optionally a data: URL)")


def _empty() -> InvalidRequest:
    return invalid("file", "empty audio upload")
