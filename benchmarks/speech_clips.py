"""Clips whose words are known: sentences spoken by espeak-ng in several voices, speeds and noises, and one
recording of a person. Also the counting of word errors.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stoker.speech.audio import read_audio

RATE = 16_000
JFK = Path(__file__).resolve().parent.parent / "tests" / "speech" / "jfk.flac"
_JFK_WORDS = (
    "and so my fellow americans ask not what your country can do for you ask what you can do for your country"
)

Samples = NDArray[np.float32]

# No numbers and no names: how those are spelled is no matter of hearing.
BAKER = (
    "The old baker opened his shop before sunrise, lit the oven, and waited for the first customers of the "
    "day. Most of them wanted bread, but some came only to talk about the weather."
)
HARBOUR = (
    "Three fishing boats left the harbour in the early morning. By noon the wind had turned, and the captain "
    "decided to bring everybody home before the storm arrived."
)
LIBRARY = (
    "Please return the books to the library on time. If you need another week, ask the woman at the front "
    "desk and she will write down a new date for you."
)
ENGINE = (
    "The engine stopped in the middle of the bridge. We pushed the car to the other side, and a farmer with "
    "a tractor pulled us to the next village."
)
GARDEN = (
    "My grandmother planted apple trees along the garden wall. Every autumn the whole family came to pick "
    "the fruit, and we made juice until late at night."
)
MEETING = (
    "The meeting starts in the large room on the second floor. Bring your notes from last week, because we "
    "want to finish the plan before the holidays."
)
RIVER = (
    "After the long rain the river was higher than anybody could remember. People carried furniture to the "
    "upper floors and watched the water through the windows."
)
TRAIN = (
    "The night train was late again, so the passengers slept on benches in the waiting hall. A kind guard "
    "brought hot tea and told stories about his travels."
)
GERMAN = (
    "Der kleine Laden an der Ecke hat jeden Tag geöffnet. Dort kaufen wir Brot, Milch und frisches Gemüse, "
    "und der Besitzer kennt alle seine Kunden."
)


@dataclass(frozen=True, slots=True)
class Clip:
    name: str
    language: str
    said: str
    samples: Samples


@dataclass(frozen=True, slots=True)
class _Spoken:
    """noise_db: level of white noise below the speech; None = none."""

    name: str
    text: str
    voice: str
    words_per_minute: int
    pitch: int = 50
    noise_db: float | None = None
    language: str = "en"


@dataclass(frozen=True, slots=True)
class _Long:
    """Several texts, with silence between them."""

    name: str
    texts: tuple[str, ...]
    voice: str
    words_per_minute: int
    pause_s: float = 0.0
    noise_db: float | None = None


SPOKEN = (
    _Spoken("baker", BAKER, "en-us", 150),
    _Spoken("baker, noise", BAKER, "en-us", 150, noise_db=12),
    _Spoken("harbour", HARBOUR, "en-gb-x-rp", 140),
    _Spoken("harbour, fast", HARBOUR, "en-gb-x-rp", 190),
    _Spoken("library", LIBRARY, "en-us+f3", 150, 60),
    _Spoken("library, noise", LIBRARY, "en-us+f3", 150, 60, noise_db=15),
    _Spoken("engine", ENGINE, "en-gb-scotland", 140),
    _Spoken("garden", GARDEN, "en-us+m3", 160, 40),
    _Spoken("meeting", MEETING, "en-gb", 150),
    _Spoken("meeting, slow", MEETING, "en-us", 110),
    _Spoken("river", RIVER, "en-us+f2", 140),
    _Spoken("train", TRAIN, "en-029", 140),
    _Spoken("Laden", GERMAN, "de", 140, language="de"),
)

# Of several windows each.
LONG = (
    _Long("long", (MEETING, TRAIN, GARDEN, RIVER, LIBRARY, ENGINE, BAKER), "en-us", 140),
    _Long("long, pauses", (HARBOUR, ENGINE, BAKER, TRAIN, MEETING), "en-gb-x-rp", 150, pause_s=2.5),
    _Long("long, noise", (LIBRARY, GARDEN, HARBOUR, RIVER, BAKER), "en-us+f3", 150, 0.5, noise_db=15),
    _Long("long, fast", (TRAIN, BAKER, RIVER, MEETING, HARBOUR, GARDEN), "en-gb", 190, pause_s=0.3),
    _Long("long, slow", (ENGINE, LIBRARY, MEETING, GARDEN), "en-us+m3", 110, pause_s=1.0),
)


def can_speak() -> bool:
    return shutil.which("espeak-ng") is not None


def speak(
    text: str, voice: str, words_per_minute: int, pitch: int = 50, noise_db: float | None = None
) -> Samples:
    """espeak-ng's voice at 16 kHz."""
    command = ["espeak-ng", "-v", voice, "-s", str(words_per_minute), "-p", str(pitch), "--stdout", text]
    samples = read_audio(io.BytesIO(subprocess.run(command, check=True, capture_output=True).stdout))
    return samples if noise_db is None else _noisy(samples, noise_db)


def _noisy(samples: Samples, noise_db: float) -> Samples:
    level = float(np.sqrt(np.mean(samples**2))) * 10 ** (-noise_db / 20)
    noise = np.random.default_rng(1).standard_normal(len(samples)) * level
    return (samples + noise).astype(np.float32)


def clips() -> list[Clip]:
    """All the short ones; needs espeak-ng."""
    spoken = [
        Clip(s.name, s.language, s.text, speak(s.text, s.voice, s.words_per_minute, s.pitch, s.noise_db))
        for s in SPOKEN
    ]
    return [Clip("a person", "en", _JFK_WORDS, read_audio(JFK)), *spoken]


def long_clips() -> list[Clip]:
    """Those of several windows; needs espeak-ng."""
    return [_joined(long) for long in LONG]


def _joined(long: _Long) -> Clip:
    pause = np.zeros(int(long.pause_s * RATE), np.float32)
    parts: list[Samples] = []
    for text in long.texts:
        parts += [speak(text, long.voice, long.words_per_minute), pause]
    samples = np.concatenate(parts)
    if long.noise_db is not None:
        samples = _noisy(samples, long.noise_db)
    return Clip(long.name, "en", " ".join(long.texts), samples)


def plain(text: str) -> list[str]:
    """The words, without case and punctuation."""
    return re.sub(r"[^\w\s]", "", text.lower().replace("-", " ")).split()


def word_errors(said: list[str], heard: list[str]) -> int:
    """Words to insert, remove or exchange."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said, 1):
        last, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            last, row[j] = row[j], min(last + (word != other), row[j] + 1, row[j - 1] + 1)
    return row[-1]
