"""A finished take as the body of each response format."""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.responses import Response

from stoker.api.errors import json_response
from stoker.api.speech.fields import ResponseFormat
from stoker.speech.orders import Outcome, Span, Timings, seconds
from stoker.speech.subtitles import srt, vtt
from stoker.speech.types import Segment, VocabularyUsage, Word

Body = dict[str, Any]


def answer(outcome: Outcome, format: ResponseFormat, *, words: bool) -> Response:
    headers = {
        "x-mlx-bun-language": outcome.transcript.language,
        "x-mlx-bun-timings": json.dumps(timings_object(outcome.timings), separators=(",", ":")),
    }
    segments = outcome.transcript.segments
    if format == "text":
        return Response(f"{outcome.transcript.text.strip()}\n", headers=headers, media_type="text/plain")
    if format == "srt":
        # Only text/... types get a charset by themselves.
        return Response(
            srt(segments, outcome.duration_s),
            headers=headers,
            media_type="application/x-subrip; charset=utf-8",
        )
    if format == "vtt":
        return Response(vtt(segments, outcome.duration_s), headers=headers, media_type="text/vtt")
    return json_response(body_object(outcome, format, words=words), headers=headers)


def body_object(outcome: Outcome, format: ResponseFormat, *, words: bool) -> Body:
    """`verbose_json` when asked for, else `json`."""
    transcript = outcome.transcript
    body: Body = {"text": transcript.text.strip()}
    if format == "verbose_json":
        body |= {
            "task": outcome.task,
            "language": transcript.language,
            "duration": _time(outcome.duration_s),
            "segments": [segment_object(segment, words=words) for segment in transcript.segments],
        }
        if words:
            body["words"] = [word_object(word) for word in transcript.words]
    body["mlx_bun"] = _extension(outcome)
    return body


def _extension(outcome: Outcome) -> Body:
    extension: Body = {
        "model": outcome.model,
        "language": outcome.transcript.language,
        "duration": _time(outcome.duration_s),
        "timings": timings_object(outcome.timings),
    }
    if outcome.transcript.vocabulary is not None:
        extension["vocabulary"] = vocabulary_object(outcome.transcript.vocabulary)
    if outcome.vad is not None:
        extension["vad"] = {
            "speech": outcome.vad.speech,
            "segments": [_span(span) for span in outcome.vad.spans],
        }
        if outcome.vad.trimmed is not None:
            extension["vad"]["trimmed"] = _span(outcome.vad.trimmed)
    return extension


def segment_object(segment: Segment, *, words: bool) -> Body:
    body: Body = {
        "id": segment.id,
        "seek": segment.seek,
        "start": _time(segment.start_s),
        "end": _time(segment.end_s),
        "text": segment.text,
        "tokens": list(segment.tokens),
        "temperature": segment.temperature,
        "avg_logprob": _finite(segment.avg_logprob),
        "compression_ratio": _finite(segment.compression_ratio),
        "no_speech_prob": _finite(segment.no_speech_prob),
    }
    if words:
        body["words"] = [word_object(word) for word in segment.words]
    return body


def word_object(word: Word) -> Body:
    return {
        "word": word.text,
        "start": _time(word.start_s),
        "end": _time(word.end_s),
        "probability": _finite(word.probability),
    }


def vocabulary_object(usage: VocabularyUsage) -> Body:
    return {
        "included": list(usage.included),
        "omitted": list(usage.omitted),
        "token_count": usage.token_count,
        "token_budget": usage.token_budget,
    }


def timings_object(timings: Timings) -> Body:
    body = {
        "load_ms": round(timings.load_ms, 3),
        "transcribe_ms": round(timings.transcribe_ms, 3),
        "total_ms": round(timings.total_ms, 3),
    }
    if timings.vad_ms is not None:
        body["vad_ms"] = round(timings.vad_ms, 3)
    return body


def _span(span: Span) -> Body:
    return {"start": _time(seconds(span[0])), "end": _time(seconds(span[1]))}


def _time(value: float) -> float:
    return round(value, 3)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
