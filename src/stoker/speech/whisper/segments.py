"""Cuts what a window said into segments at its timestamps, and finds where the next window begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cut:
    """Times in positions (0.02 s) from the window's start."""

    start: int
    end: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cuts:
    segments: tuple[Cut, ...]
    resume: int | None  # position the next window starts at; None = after this window's last frame
    ends_in_silence: bool  # a single timestamp closes it: nothing was said afterwards


def cut(tokens: Sequence[int], timestamp_begin: int, num_positions: int) -> Cuts:
    """`num_positions`: length of the window's sound."""
    times = [token >= timestamp_begin for token in tokens]
    ends_in_silence = times[-2:] == [False, True]
    borders = [i for i in range(1, len(tokens)) if times[i - 1] and times[i]]
    if not borders:
        marks = [token - timestamp_begin for token in tokens if token >= timestamp_begin]
        end = marks[-1] if marks and marks[-1] != 0 else num_positions
        return Cuts((Cut(0, end, tuple(tokens)),), None, ends_in_silence)
    if ends_in_silence:
        borders.append(len(tokens))
    pieces = []
    for first, last in zip([0, *borders], borders, strict=False):
        piece = tuple(tokens[first:last])
        pieces.append(Cut(piece[0] - timestamp_begin, piece[-1] - timestamp_begin, piece))
    # What follows the last pair is unfinished; it is heard again, from that time on.
    return Cuts(tuple(pieces), None if ends_in_silence else pieces[-1].end, ends_in_silence)
