"""Gives the words of a window to its segments, and makes the two agree on when speech begins and ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stoker.speech.types import Segment, Word
from stoker.speech.whisper.align import (
    AlignedWord,
    merge_punctuation,
    shorten_at_sentence_ends,
    typical_duration,
)


def add_words(
    segments: Sequence[Segment],
    aligned: list[AlignedWord],
    *,
    eot: int,
    window_start_s: float,
    last_speech_s: float,
) -> list[Segment]:
    """The segments with their words. `last_speech_s` is where speech ended before this window."""
    typical_s = typical_duration(aligned)
    longest_s = 2 * typical_s
    shorten_at_sentence_ends(aligned, longest_s)
    merge_punctuation(aligned)
    result = []
    next_word = 0
    for segment in segments:
        wanted = sum(token < eot for token in segment.tokens)
        words: list[Word] = []
        given = 0
        while next_word < len(aligned) and given < wanted:
            word = aligned[next_word]
            if word.text:
                start_s, end_s = (round(window_start_s + t, 2) for t in (word.start_s, word.end_s))
                words.append(Word(start_s, end_s, word.text, word.probability))
            given += len(word.tokens)
            next_word += 1
        if words:
            segment = _agree(segment, words, typical_s, longest_s, last_speech_s)
            last_speech_s = segment.end_s
        result.append(segment)
    return result


def _agree(
    segment: Segment, words: list[Word], typical_s: float, longest_s: float, last_speech_s: float
) -> Segment:
    first = words[0]
    drags = first.end_s - first.start_s > longest_s
    drags_with_second = len(words) > 1 and words[1].end_s - first.start_s > 2 * longest_s
    # After a pause the first word, or the first two, swallow some of it.
    if first.end_s - last_speech_s > 4 * typical_s and (drags or drags_with_second):
        if len(words) > 1 and words[1].end_s - words[1].start_s > longest_s:
            border = max(words[1].end_s / 2, words[1].end_s - longest_s)
            words[0] = replace(words[0], end_s=border)
            words[1] = replace(words[1], start_s=border)
        words[0] = replace(words[0], start_s=max(0.0, words[0].end_s - longest_s))
    # Half a second of difference means that the segment's own time is the better one.
    start_s, end_s = segment.start_s, segment.end_s
    if start_s < words[0].end_s and start_s - 0.5 > words[0].start_s:
        words[0] = replace(words[0], start_s=max(0.0, min(words[0].end_s - typical_s, start_s)))
    else:
        start_s = words[0].start_s
    if end_s > words[-1].start_s and end_s + 0.5 < words[-1].end_s:
        words[-1] = replace(words[-1], end_s=max(words[-1].start_s + typical_s, end_s))
    else:
        end_s = words[-1].end_s
    return replace(segment, start_s=start_s, end_s=end_s, words=tuple(words))
