"""Documentation models of the speech routes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from stoker.api.documented import Documented
from stoker.api.openapi import Docs, error_docs

Granularity = Literal["segment", "word"]
Format = Literal["json", "verbose_json", "text", "srt", "vtt"]


class SpeechErrorDetail(Documented):
    message: str
    type: Literal["invalid_request_error", "model_unavailable", "server_error", "resource_admission"]


class TakeFields(Documented):
    """What a one-shot and a session share."""

    language: str | None = Field(None, description="Code or English name; left out or `auto`: detect.")
    prompt: str | None = Field(None, description="Style and words; the last 223 tokens are used.")
    temperature: float | None = Field(None, ge=0, le=1, description="One value, without fallbacks.")
    beam_size: int | None = Field(None, ge=1, le=16)
    vocabulary: Annotated[list[str], Field(max_length=8192)] | str | None = Field(
        None, description="Terms to expect; a text is a comma list."
    )
    timestamp_granularities: list[Granularity] | Granularity | None = None
    condition_on_previous_text: bool | None = None
    no_speech_threshold: float | None = None
    without_timestamps: bool | None = None
    vad: bool | None = Field(None, description="Silence is not transcribed.")
    vad_threshold: float | None = Field(None, gt=0, lt=1)
    vad_min_speech_ms: float | None = Field(None, ge=0)
    vad_trim: bool | None = Field(None, description="Only from the first speech to the last.")
    faithful: bool | None = Field(None, description="The reference arithmetic; slower.")
    audio_ctx: int | None = Field(None, ge=64, le=1500)


class TranscriptionJson(TakeFields):
    file: str = Field(description="The audio in base64, also as a data: URL.")
    model: str | None = Field(None, description="Ignored.")
    response_format: Format | None = None
    stream: bool | None = None


class TranscriptionForm(Documented):
    """The same as texts; `timestamp_granularities[]` may be repeated, `vocabulary` is a comma list."""

    file: bytes = Field(json_schema_extra={"format": "binary"})
    model: str = "whisper"
    language: str = ""
    response_format: Format = "json"


class SessionFields(TakeFields):
    response_format: Literal["json", "verbose_json"] | None = None
    task: Literal["transcribe", "translate"] | None = None


class WordRow(Documented):
    word: str
    start: float
    end: float
    probability: float


class SegmentRow(Documented):
    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    words: list[WordRow] | None = None


class TakeTimings(Documented):
    load_ms: float = Field(description="Above 0 when this request brought the weights in.")
    transcribe_ms: float
    total_ms: float
    vad_ms: float | None = None


class VocabularyRow(Documented):
    included: list[str]
    omitted: list[str]
    token_count: int
    token_budget: int


class SpanRow(Documented):
    start: float
    end: float


class VadRow(Documented):
    speech: bool
    segments: list[SpanRow]
    trimmed: SpanRow | None = None


class TakeFacts(Documented):
    model: str
    language: str
    duration: float
    timings: TakeTimings
    vocabulary: VocabularyRow | None = None
    vad: VadRow | None = None


class TranscriptBody(Documented):
    """`json` has the text and the facts, `verbose_json` everything."""

    text: str
    task: Literal["transcribe", "translate"] | None = None
    language: str | None = None
    duration: float | None = None
    segments: list[SegmentRow] | None = None
    words: list[WordRow] | None = None
    mlx_bun: TakeFacts


class SessionCreated(Documented):
    id: str
    model: str
    vocabulary: VocabularyRow | None


class SessionReceipt(Documented):
    id: str
    samples: int = Field(description="Received so far, at 16 kHz.")
    duration: float
    speech: bool = Field(description="With `vad`: somebody has spoken.")
    segments: list[SegmentRow] = Field(description="Finished so far.")


class ResidencyBlock(Documented):
    resident: bool
    loads: int
    unloads: int
    requests: int
    last_load_ms: float
    idle_unload_sec: float | None


class Unloaded(ResidencyBlock):
    unloaded: bool


class TranscriptionBlock(ResidencyBlock):
    sessions: int


_TEXT = {"schema": {"type": "string"}}
_ERRORS = (400, 401, 403, 408, 413, 429, 499, 500, 503)
_UNSUPPORTED: dict[int | str, Docs] = {415: error_docs(400)[400] | {"description": "Another content type."}}


def _closed() -> dict[int | str, Docs]:
    model = error_docs(400)[400]["model"]
    return {
        404: {"model": model, "description": "No such session."},
        409: {"model": model, "description": "The session is finished, discarded or expired."},
    }


def _body(*models: tuple[str, type[BaseModel]], required: bool = True) -> Docs:
    content: dict[str, Any] = {
        kind: {"schema": model.model_json_schema(ref_template="#/components/schemas/{model}")}
        for kind, model in models
    }
    return {"requestBody": {"required": required, "content": content}}


TRANSCRIPTION_DOCS: Docs = {
    "responses": {
        200: {
            "model": TranscriptBody,
            "description": "In the format asked for; with `stream`, server-sent events.",
            "content": {
                "text/plain": _TEXT,
                "text/vtt": _TEXT,
                "application/x-subrip": _TEXT,
                "text/event-stream": _TEXT,
            },
        },
        **error_docs(*_ERRORS),
        **_UNSUPPORTED,
    },
    "openapi_extra": _body(
        ("multipart/form-data", TranscriptionForm), ("application/json", TranscriptionJson)
    ),
}
SESSION_DOCS: Docs = {
    "responses": {
        200: {"model": SessionCreated, "description": "It is open, and the weights are loaded."},
        **error_docs(*_ERRORS),
    },
    "openapi_extra": _body(("application/json", SessionFields), required=False),
}
_SESSION_ID: Docs = {
    "parameters": [
        {
            "name": "session_id",
            "in": "path",
            "required": True,
            "description": "As the creation answered it.",
            "schema": {"type": "string"},
        }
    ]
}
_AUDIO = {"schema": {"type": "string", "format": "binary"}}
AUDIO_DOCS: Docs = {
    "responses": {
        200: {"model": SessionReceipt, "description": "Received; windows are computed as they fill."},
        **error_docs(*_ERRORS),
        **_closed(),
    },
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {"audio/pcm": _AUDIO, "audio/wav": _AUDIO, "application/octet-stream": _AUDIO},
        },
        **_SESSION_ID,
    },
}
FINISH_DOCS: Docs = {
    "responses": {
        200: {"model": TranscriptBody, "description": "The whole take."},
        **error_docs(*_ERRORS),
        **_closed(),
    },
    "openapi_extra": _SESSION_ID,
}
DELETE_DOCS: Docs = {
    "responses": {
        204: {"description": "Gone."},
        **error_docs(401, 403, 503),
        **_closed(),
    },
    "openapi_extra": _SESSION_ID,
}
UNLOAD_DOCS: Docs = {
    "responses": {
        200: {
            "model": Unloaded,
            "description": "`unloaded` is false when nothing was, or work is under way.",
        },
        **error_docs(401, 403, 503),
    }
}
