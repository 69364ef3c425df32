"""What is heard beside faster-whisper and openai-whisper on the same weights: word errors, times of words,
and whether the reference mode gives openai-whisper's tokens window by window.

    python -m benchmarks.speech_quality whisper-base

Both are installed under .peers/ the first time; espeak-ng speaks the clips. Nothing is timed here.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from benchmarks import speech_workers
from benchmarks.report import number, table
from benchmarks.speech_clips import Clip, can_speak, clips, long_clips, plain, word_errors

BEAMS = (1, 5)
LADDER = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
# What is drawn at random cannot be compared token by token.
PLAIN = LADDER[:1]

TimedWord = tuple[str, float, float]
Ask = Callable[..., dict[str, Any]]


@contextmanager
def asker(
    worker: speech_workers.Worker, temperatures: tuple[float, ...] = PLAIN
) -> Iterator[Callable[..., dict[str, Any]]]:
    """`ask(clip, beam, words)` of a worker."""
    with worker, tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "samples"

        def ask(clip: Clip, beam: int, *, words: bool) -> dict[str, Any]:
            clip.samples.tofile(path)
            return worker.ask(
                samples=str(path),
                language=clip.language,
                beam=beam,
                words=words,
                temperatures=temperatures,
            )

        yield ask


def time_differences(ours: list[TimedWord], theirs: list[TimedWord]) -> list[float]:
    """Seconds between the starts, and between the ends, of the words that both heard."""
    names = [[" ".join(plain(word)) for word, *_ in words] for words in (ours, theirs)]
    differences = []
    for block in SequenceMatcher(None, *names, autojunk=False).get_matching_blocks():
        for at in range(block.size):
            mine, other = ours[block.a + at], theirs[block.b + at]
            differences += [abs(mine[1] - other[1]), abs(mine[2] - other[2])]
    return differences


def same_windows(ours: list[Any], theirs: list[Any]) -> tuple[int, int]:
    """Of the other's windows: how many begin at the same frame with us and say the same tokens; how many."""
    mine, others = _by_window(ours), _by_window(theirs)
    return sum(mine.get(at) == tokens for at, tokens in others.items()), len(others)


def _by_window(segments: list[Any]) -> dict[int, list[int]]:
    windows: dict[int, list[int]] = defaultdict(list)
    for at, tokens in segments:
        windows[at] += tokens
    return windows


def beside_faster_whisper(known: list[Clip], ours: Ask, theirs: Ask, *, show: bool) -> list[list[str]]:
    """Rows of clips: word errors at each beam, and the median difference of word times."""
    rows, totals, differences = [], [0] * (2 * len(BEAMS)), []
    for clip in known:
        said = plain(clip.said)
        errors = []
        for beam in BEAMS:
            answers = [ask(clip, beam, words=True) for ask in (ours, theirs)]
            errors += [word_errors(said, plain(answer["text"])) for answer in answers]
            differences += time_differences(answers[0]["words"], answers[1]["words"])
            if show:
                for name, answer in zip(("stoker", "faster-whisper"), answers, strict=True):
                    print(f"  {clip.name}, beam {beam}, {name}: {answer['text']}", file=sys.stderr)
        totals = [total + error for total, error in zip(totals, errors, strict=True)]
        rows.append([clip.name, str(len(said)), *map(str, errors)])
        print(f"  {clip.name}: {errors}", file=sys.stderr)
    num_words = sum(len(plain(clip.said)) for clip in known)
    rows.append(["together", str(num_words), *(f"{100 * total / num_words:.2f} %" for total in totals)])
    ordered = sorted(differences)
    print(
        f"times of {len(ordered) // 2} words: median difference {1000 * statistics.median(ordered):.0f} ms, "
        f"nine of ten within {1000 * ordered[int(0.9 * len(ordered))]:.0f} ms"
    )
    return rows


def beside_openai_whisper(known: list[Clip], ours: Ask, theirs: Ask) -> None:
    # Word times decide where windows begin, so both ways are worth looking at.
    for beam, words in ((1, False), (1, True), (5, False)):
        same = total = 0
        differences: list[float] = []
        for clip in known:
            mine, other = (ask(clip, beam, words=words) for ask in (ours, theirs))
            agree, windows = same_windows(mine["windows"], other["windows"])
            same, total = same + agree, total + windows
            differences += time_differences(mine["words"], other["words"])
            print(f"  {clip.name}: {agree} of {windows}", file=sys.stderr)
        kind = f"beam {beam}{', times of words' if words else ''}"
        print(f"{kind}: {same} of {total} windows have openai-whisper's tokens", flush=True)
        if differences:
            print(f"times of words differ by {number(1000 * max(differences))} ms at most", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=("faster-whisper", "openai-whisper"), help="one of the two")
    parser.add_argument("--clips", choices=("short", "long", "all"), default="all")
    parser.add_argument("--ladder", action="store_true", help="fallback temperatures beside faster-whisper")
    parser.add_argument("--texts", action="store_true", help="show what was heard")
    parser.add_argument("--faster-whisper", type=Path, default=speech_workers.FASTER, help="its environment")
    parser.add_argument("--openai-whisper", type=Path, default=speech_workers.OPENAI, help="its packages")
    arguments = parser.parse_args()
    if not can_speak():
        parser.error("espeak-ng speaks the clips and is not installed")

    from stoker.library.registry import find_model

    folder, threads = str(find_model(arguments.model, kinds=("speech",)).path), arguments.threads
    known = [
        *(clips() if arguments.clips != "long" else ()),
        *(long_clips() if arguments.clips != "short" else ()),
    ]
    temperatures = LADDER if arguments.ladder else PLAIN
    if arguments.only != "openai-whisper":
        with (
            asker(speech_workers.own(folder, threads), temperatures) as ours,
            asker(
                speech_workers.faster_whisper(folder, threads, arguments.faster_whisper), temperatures
            ) as theirs,
        ):
            rows = beside_faster_whisper(known, ours, theirs, show=arguments.texts)
        head = ["clip", "words"]
        for beam in BEAMS:
            head += [f"errors, beam {beam}", f"faster-whisper, beam {beam}"]
        print(table(head, rows), flush=True)
    if arguments.only != "faster-whisper":
        with (
            asker(speech_workers.own(folder, threads, faithful=True)) as ours,
            asker(speech_workers.openai_whisper(folder, threads, arguments.openai_whisper)) as theirs,
        ):
            beside_openai_whisper(known, ours, theirs)


if __name__ == "__main__":
    main()
