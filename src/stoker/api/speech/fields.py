"""The fields of a transcription, from a form or from JSON, to an `Order`. Reads no audio.

A form knows only texts: they are turned into the values JSON would hold, and what does not parse counts as
left out. From there on both are checked alike.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, cast

from stoker.api.fields import as_integer, invalid, is_number
from stoker.speech.orders import Order, VadOptions
from stoker.speech.types import TEMPERATURE_LADDER, Task, TranscribeOptions

Values = dict[str, Any]
ResponseFormat = Literal["json", "verbose_json", "text", "srt", "vtt"]

FORMATS: tuple[ResponseFormat, ...] = ("json", "verbose_json", "text", "srt", "vtt")
SESSION_FORMATS: tuple[ResponseFormat, ...] = ("json", "verbose_json")
GRANULARITIES = ("segment", "word")
MAX_TERMS = 8192
MAX_TERM_BYTES = 16 * 1024

_NUMBERS = {
    "temperature",
    "beam_size",
    "no_speech_threshold",
    "vad_threshold",
    "vad_min_speech_ms",
    "audio_ctx",
}
_FLAGS = {
    "stream",
    "condition_on_previous_text",
    "without_timestamps",
    "vad",
    "vad_trim",
    "faithful",
}
_LISTS = {"timestamp_granularities", "vocabulary"}


@dataclass(frozen=True, slots=True)
class TranscriptionRequest:
    order: Order
    format: ResponseFormat
    stream: bool
    words: bool


def form_values(pairs: Iterable[tuple[str, str]]) -> Values:
    """What JSON would hold in place of these texts. `name[]` and `name` are the same field."""
    values: Values = {}
    for raw_name, text in pairs:
        name = raw_name.removesuffix("[]")
        if not text.strip():
            continue
        if name in _LISTS:
            items = [text] if raw_name.endswith("[]") else text.split(",")
            values.setdefault(name, []).extend(item.strip() for item in items if item.strip())
            continue
        value = _form_value(name, text)
        if value is not None:
            values[name] = value
    return values


def _form_value(name: str, text: str) -> Any:
    if name in _NUMBERS:
        try:
            number = float(text)
        except ValueError:
            return None
        return number if math.isfinite(number) else None
    if name in _FLAGS:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower())
    return text


def read_request(values: Values, task: Task) -> TranscriptionRequest:
    """Raises InvalidRequest with the contract's words."""
    format = _format(values, FORMATS, "response_format must be one of " + ", ".join(FORMATS))
    stream = _flag(values, "stream", False)
    words = "word" in _granularities(values)
    if words and format != "verbose_json" and not stream:
        raise invalid(
            "timestamp_granularities",
            "timestamp_granularities[]=word requires response_format=verbose_json",
        )
    return TranscriptionRequest(_order(values, task, words), format, stream, words)


def read_session(values: Values) -> TranscriptionRequest:
    """The same for a streaming session."""
    format = _format(values, SESSION_FORMATS, "sessions return json or verbose_json")
    task = values.get("task")
    if task not in (None, "transcribe", "translate"):
        raise invalid("task", "task must be transcribe or translate")
    words = "word" in _granularities(values)
    return TranscriptionRequest(_order(values, task or "transcribe", words), format, False, words)


def _order(values: Values, task: Task, words: bool) -> Order:
    temperature = _between(values, "temperature", 0.0, 1.0, "temperature must be in [0, 1]")
    beam_size = _whole(values, "beam_size", 1, 16)
    if beam_size is not None and beam_size > 1 and temperature:
        raise invalid("beam_size", "beam_size requires temperature 0")
    options = TranscribeOptions(
        language=_language(values),
        task=task,
        temperatures=TEMPERATURE_LADDER if temperature is None else (temperature,),
        beam_size=beam_size or 1,
        initial_prompt=_text(values, "prompt"),
        vocabulary=_vocabulary(values),
        condition_on_previous_text=_flag(values, "condition_on_previous_text", True),
        word_timestamps=words,
        without_timestamps=_flag(values, "without_timestamps", False),
        no_speech_threshold=_number(values, "no_speech_threshold", 0.6),
        audio_ctx=_whole(values, "audio_ctx", 64, 1500),
        faithful=_flag(values, "faithful", False),
    )
    return Order(options, _vad(values), _flag(values, "vad_trim", False))


def _vad(values: Values) -> VadOptions | None:
    threshold = _number(values, "vad_threshold", 0.5)
    if not 0 < threshold < 1:
        raise invalid("vad_threshold", "vad_threshold must be in (0, 1)")
    min_speech_ms = _number(values, "vad_min_speech_ms", 250.0)
    if min_speech_ms < 0:
        raise invalid("vad_min_speech_ms", "vad_min_speech_ms must be at least 0")
    wanted = _flag(values, "vad", False)
    return VadOptions(threshold=threshold, min_speech_ms=min_speech_ms) if wanted else None


def _format(values: Values, allowed: tuple[ResponseFormat, ...], message: str) -> ResponseFormat:
    value = values.get("response_format")
    if value is None:
        return "json"
    if value not in allowed:
        raise invalid("response_format", message)
    return cast(ResponseFormat, value)


def _granularities(values: Values) -> list[str]:
    value = values.get("timestamp_granularities", values.get("timestamp_granularities[]"))
    if isinstance(value, str):
        value = [value]
    if value is None:
        return []
    if not isinstance(value, list) or any(item not in GRANULARITIES for item in value):
        raise invalid("timestamp_granularities", "timestamp_granularities must hold segment or word")
    return value


def _language(values: Values) -> str | None:
    text = _text(values, "language")
    if text is None or text.strip().lower() in ("", "auto"):
        return None
    from stoker.speech.whisper.languages import CODES, find_code  # its package brings torch

    code = find_code(text)
    if code is None:
        known = ", ".join(CODES)
        raise invalid(
            "language", f"unsupported language: {text[:40]} (known: {known}, and their English names)"
        )
    return code


def _vocabulary(values: Values) -> tuple[str, ...]:
    value = values.get("vocabulary")
    if value is None:
        return ()
    if isinstance(value, str):
        value = [term for term in (part.strip() for part in value.split(",")) if term]
    if not isinstance(value, list) or not all(isinstance(term, str) for term in value):
        raise invalid("vocabulary", "vocabulary must be a list of strings")
    if len(value) > MAX_TERMS or any(len(term.encode()) > MAX_TERM_BYTES for term in value):
        raise invalid("vocabulary", f"vocabulary: at most {MAX_TERMS} terms of at most 16 KiB each")
    return tuple(term.strip() for term in value if term.strip())


def _text(values: Values, name: str) -> str | None:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise invalid(name, f"{name} must be a string")
    return value


def _flag(values: Values, name: str, default: bool) -> bool:
    value = values.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise invalid(name, f"{name} must be true or false")
    return value


def _number(values: Values, name: str, default: float) -> float:
    value = values.get(name)
    if value is None:
        return default
    if not is_number(value) or abs(value) > sys.float_info.max:
        raise invalid(name, f"{name} must be a number")
    return float(value)


def _between(values: Values, name: str, low: float, high: float, message: str) -> float | None:
    value = values.get(name)
    if value is None:
        return None
    if not is_number(value) or not low <= value <= high:
        raise invalid(name, message)
    return float(value)


def _whole(values: Values, name: str, low: int, high: int) -> int | None:
    raw = values.get(name)
    if raw is None:
        return None
    value = as_integer(raw)
    if value is None or not low <= value <= high:
        raise invalid(name, f"{name} must be an integer in [{low}, {high}]")
    return value
