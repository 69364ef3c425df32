"""`stoker transcribe`: audio files to text, without a server."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.cli.options import with_settings
from stoker.cli.output import fail, note
from stoker.config import Settings

if TYPE_CHECKING:
    from stoker.speech.orders import Order, Outcome
    from stoker.speech.service import SpeechService
    from stoker.speech.types import Segment

FORMATS = ("text", "json", "verbose_json", "srt", "vtt")


@with_settings("whisper_model", "vad_model", "device", "threads")
def run(
    settings: Settings,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Audio or video; - reads standard input.")
    ],
    model: Annotated[
        str | None, typer.Option("--model", metavar="TEXT", help="The same as --whisper-model.")
    ] = None,
    language: Annotated[
        str | None, typer.Option("--language", metavar="CODE", help="Code or name. Default: detected.")
    ] = None,
    task: Annotated[
        str, typer.Option("--task", metavar="transcribe|translate", help="translate gives English.")
    ] = "transcribe",
    format: Annotated[
        str, typer.Option("--format", "-f", metavar="|".join(FORMATS), help="What to print.")
    ] = "text",
    output_dir: Annotated[
        Path | None,
        typer.Option(
            "--output-dir", metavar="DIR", help="Write FILE.txt and so on here instead of printing."
        ),
    ] = None,
    beam_size: Annotated[
        int | None, typer.Option("--beam-size", metavar="N", help="1 to 16. Default: greedy.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", metavar="X", help="One temperature, 0 to 1.")
    ] = None,
    no_fallback: Annotated[bool, typer.Option("--no-fallback", help="Temperature 0 only.")] = False,
    prompt: Annotated[
        str | None, typer.Option("--prompt", metavar="TEXT", help="Style and words to expect.")
    ] = None,
    vocabulary: Annotated[
        str | None, typer.Option("--vocabulary", metavar="A,B", help="Terms to expect.")
    ] = None,
    no_timestamps: Annotated[bool, typer.Option("--no-timestamps", help="Decode text only.")] = False,
    no_condition: Annotated[
        bool, typer.Option("--no-condition", help="Do not prompt a window with the text before it.")
    ] = False,
    word_timestamps: Annotated[
        bool, typer.Option("--word-timestamps", help="Times of words, in verbose_json.")
    ] = False,
    vad: Annotated[bool, typer.Option("--vad", help="Transcribe only when somebody speaks.")] = False,
    vad_threshold: Annotated[
        float | None, typer.Option("--vad-threshold", metavar="X", help="Between 0 and 1. Default: 0.5.")
    ] = None,
    faithful: Annotated[bool, typer.Option("--faithful", help="Reference arithmetic; slower.")] = False,
    audio_ctx: Annotated[
        int | None, typer.Option("--audio-ctx", metavar="N", help="Encoder positions, 64 to 1500.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Segments with their times, and speed, on stderr.")
    ] = False,
) -> None:
    """Transcribe audio files.

    \b
      stoker transcribe talk.mp3
      stoker transcribe film.mkv --format srt > film.srt
      stoker transcribe *.wav --format vtt --output-dir subtitles
      stoker transcribe interview.m4a --language german --task translate

    Any format that FFmpeg reads. Without --model the first downloaded Whisper is used;
    `stoker get whisper-base` downloads a small one.
    """
    from stoker.api.speech.fields import read_request
    from stoker.cli.speech import local_service

    if format not in FORMATS:
        fail(f"--format must be one of {', '.join(FORMATS)}, not {format!r}", 2)
    if task not in ("transcribe", "translate"):
        fail(f"--task must be transcribe or translate, not {task!r}", 2)
    values: dict[str, Any] = {
        "language": language,
        "prompt": prompt,
        "vocabulary": vocabulary,
        "temperature": 0.0 if no_fallback and temperature is None else temperature,
        "beam_size": beam_size,
        "without_timestamps": no_timestamps,
        "condition_on_previous_text": not no_condition,
        "timestamp_granularities": ["word"] if word_timestamps else [],
        "vad": vad or vad_threshold is not None,
        "vad_threshold": vad_threshold,
        "faithful": faithful,
        "audio_ctx": audio_ctx,
        "response_format": "verbose_json",  # words are allowed there; what is printed is decided below
    }
    order = read_request(values, "translate" if task == "translate" else "transcribe").order
    service = local_service(settings, model)
    service.checkpoint()  # fails before anything is decoded
    failed = 0
    for file in files:
        try:
            outcome = _transcribe(service, file, order, verbose=verbose, many=len(files) > 1)
        except OSError as error:
            failed += 1
            note(f"stoker: {file}: {error.strerror or error}")
            continue
        except Exception as error:
            message = getattr(error, "message", None)
            if message is None:
                raise
            failed += 1
            note(f"stoker: {file}: {message}")
            continue
        _put(render(outcome, format, words=word_timestamps), file, output_dir, format)
    if failed:
        raise typer.Exit(1)


def _transcribe(service: SpeechService, file: Path, order: Order, *, verbose: bool, many: bool) -> Outcome:
    from stoker.cli.speech import Meter
    from stoker.speech.audio import read_audio

    started = time.perf_counter()
    samples = read_audio(sys.stdin.buffer.read() if str(file) == "-" else file)

    def on_segment(segment: Segment) -> None:
        if verbose:
            note(f"[{segment.start_s:8.2f} - {segment.end_s:8.2f}]{segment.text}")

    with Meter(file.name, quiet=verbose) as meter:
        outcome = service.transcribe(samples, order, on_segment=on_segment, on_progress=meter.update)
    seconds = time.perf_counter() - started
    if verbose:
        timings = outcome.timings
        note(
            f"{file}: {outcome.duration_s:.1f} s of audio in {seconds:.2f} s "
            f"({outcome.duration_s / seconds:.1f} times real time; load {timings.load_ms:.0f} ms), "
            f"language {outcome.transcript.language}"
        )
    elif many and sys.stderr.isatty():
        note(f"{file}: {outcome.duration_s / seconds:.1f} times real time")
    return outcome


def render(outcome: Outcome, format: str, *, words: bool) -> str:
    """What is printed: the body that the server would answer, ended by a newline."""
    import json

    from stoker.api.speech.answer import body_object
    from stoker.speech.subtitles import srt, vtt

    if format == "text":
        text = outcome.transcript.text.strip()
        return f"{text}\n" if text else ""
    if format == "srt":
        return srt(outcome.transcript.segments, outcome.duration_s)
    if format == "vtt":
        return vtt(outcome.transcript.segments, outcome.duration_s)
    body = body_object(outcome, "verbose_json" if format == "verbose_json" else "json", words=words)
    return json.dumps(body, ensure_ascii=False, indent=2) + "\n"


def _put(text: str, file: Path, folder: Path | None, format: str) -> None:
    if folder is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    suffix = {"text": "txt", "srt": "srt", "vtt": "vtt"}.get(format, "json")
    folder.mkdir(parents=True, exist_ok=True)
    name = "stdin" if str(file) == "-" else file.stem
    path = folder / f"{name}.{suffix}"
    path.write_text(text, encoding="utf-8")
    note(f"wrote {path}")
