"""SubRip and WebVTT files from segments.

Players want cues in order that do not overlap and end with the recording, lines of bearable length, and no
text that looks like the format's own marks. Times are rounded to milliseconds once, before they are split
into hours, minutes and seconds.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stoker.speech.types import Segment

LINE_COLUMNS = 42  # what broadcasters use; a wide character takes two


@dataclass(frozen=True, slots=True)
class Cue:
    start_ms: int
    end_ms: int
    lines: tuple[str, ...]


def srt(segments: Sequence[Segment], duration_s: float) -> str:
    return "".join(
        f"{number}\n{_time(cue.start_ms, ',')} --> {_time(cue.end_ms, ',')}\n" + "\n".join(cue.lines) + "\n\n"
        for number, cue in enumerate(cues(segments, duration_s), 1)
    )


def vtt(segments: Sequence[Segment], duration_s: float) -> str:
    return "WEBVTT\n\n" + "".join(
        f"{_time(cue.start_ms, '.')} --> {_time(cue.end_ms, '.')}\n"
        + "\n".join(_escaped(line) for line in cue.lines)
        + "\n\n"
        for cue in cues(segments, duration_s)
    )


def cues(segments: Sequence[Segment], duration_s: float) -> Iterator[Cue]:
    """One per segment that has text. Starts never decrease, no cue reaches into the next one, none beyond
    the end, and each lasts at least a millisecond where the recording has one left."""
    last = _milliseconds(duration_s)
    spoken = [segment for segment in segments if segment.text.strip()]
    starts: list[int] = []
    for segment in spoken:
        starts.append(max(min(_milliseconds(segment.start_s), max(last - 1, 0)), starts[-1] if starts else 0))
    for number, segment in enumerate(spoken):
        end = min(max(_milliseconds(segment.end_s), starts[number] + 1), last)
        if number + 1 < len(spoken):
            end = min(end, max(starts[number + 1], starts[number]))
        yield Cue(starts[number], max(end, starts[number]), tuple(wrap(segment.text)))


def wrap(text: str, columns: int = LINE_COLUMNS) -> list[str]:
    """`text` in lines of at most `columns`, broken at spaces, or anywhere where the script has none.
    Blank lines and arrows, which would end a cue or begin another, cannot occur."""
    words = text.replace("-->", "->").split()
    if not any(_width(word) > columns for word in words) and text.isascii():
        return textwrap.wrap(" ".join(words), columns, break_on_hyphens=False)
    lines: list[str] = []
    line = ""
    for word in words:
        if line and _width(line) + 1 + _width(word) <= columns:
            line += " " + word
            continue
        if line:
            lines.append(line)
        *whole, line = _pieces(word, columns)
        lines += whole
    return [*lines, line] if line else lines


def _pieces(word: str, columns: int) -> list[str]:
    """A word that is too long for a line, as Chinese or Thai sentences are, cut between characters."""
    pieces = [""]
    for character in word:
        if pieces[-1] and not unicodedata.combining(character) and _width(pieces[-1] + character) > columns:
            pieces.append("")
        pieces[-1] += character
    return pieces


def _width(text: str) -> int:
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def _escaped(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _milliseconds(seconds: float) -> int:
    return max(0, round(seconds * 1000))


def _time(milliseconds: int, separator: str) -> str:
    seconds, thousandths = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}{separator}{thousandths:03}"
