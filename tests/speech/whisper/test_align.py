from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from stoker.speech.types import Segment
from stoker.speech.whisper.align import AlignedWord, merge_punctuation, warp
from stoker.speech.whisper.words import add_words


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1), (3, 7), (5, 5), (6, 4)])
def test_the_path_is_the_cheapest_of_all(shape: tuple[int, int]) -> None:
    cost = np.random.default_rng(sum(shape)).standard_normal(shape)
    tokens, positions = warp(cost)

    @cache
    def cheapest(i: int, j: int) -> float:
        if (i, j) == (0, 0):
            return float(cost[0, 0])
        ways = [(i - 1, j - 1), (i - 1, j), (i, j - 1)]
        return float(cost[i, j]) + min(cheapest(*way) for way in ways if min(way) >= 0)

    assert (tokens[0], positions[0]) == (0, 0)
    assert (tokens[-1], positions[-1]) == (shape[0] - 1, shape[1] - 1)
    steps = set(zip(np.diff(tokens).tolist(), np.diff(positions).tolist(), strict=True))
    assert steps <= {(0, 1), (1, 0), (1, 1)}
    assert np.isclose(cost[tokens, positions].sum(), cheapest(shape[0] - 1, shape[1] - 1))


def words(*items: tuple[str, float, float]) -> list[AlignedWord]:
    return [AlignedWord(text, [i], start, end, 0.9) for i, (text, start, end) in enumerate(items)]


def test_punctuation_joins_its_word() -> None:
    found = words((' "', 0, 1), (" Hello", 1, 2), (",", 2, 3), ("!", 3, 4), (" you", 4, 5))
    merge_punctuation(found)
    assert [w.text for w in found if w.text] == [' " Hello,!', " you"]
    assert [w.tokens for w in found if w.text] == [[0, 1, 2, 3], [4]]


def segment(start_s: float, end_s: float, *tokens: int) -> Segment:
    return Segment(0, 0, start_s, end_s, "", tokens, 0.0, 0.0, 1.0, 0.0)


def test_words_go_to_the_segments_of_their_tokens() -> None:
    first, second = segment(10.0, 11.0, 900, 0, 1, 901), segment(11.0, 12.0, 2)
    aligned = words((" a", 0.0, 0.5), (" b", 0.5, 1.0), (" c", 1.2, 2.0))
    one, two = add_words([first, second], aligned, eot=800, window_start_s=10.0, last_speech_s=10.0)
    assert [(w.text, w.start_s, w.end_s) for w in one.words] == [(" a", 10.0, 10.5), (" b", 10.5, 11.0)]
    assert [w.text for w in two.words] == [" c"]
    assert (two.start_s, two.end_s) == (11.2, 12.0)


def test_a_first_word_does_not_swallow_the_pause_before_it() -> None:
    aligned = words((" a", 0.0, 6.0), (" b", 6.0, 6.4), (" c", 6.4, 6.8))
    (found,) = add_words([segment(0.0, 6.8, 0, 1, 2)], aligned, eot=800, window_start_s=0, last_speech_s=0)
    assert found.words[0].end_s - found.words[0].start_s <= 2 * 0.4 + 1e-9
    assert found.start_s == found.words[0].start_s
