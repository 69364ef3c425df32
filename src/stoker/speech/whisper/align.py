"""When each word was said: dynamic time warping over the cross-attention of the alignment heads.

The method and its clean-up of too long words are openai-whisper's (timing.py). Legend: N tokens, M positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from stoker.speech.whisper.decoder import CrossCache, Decoder, Window
from stoker.speech.whisper.tokenizer import WhisperTokenizer

_MEDIAN_WIDTH = 7
_PREPENDED = "\"'“¿([{-"
_APPENDED = "\"'.。,，!！?？:：”)]}、"

Path = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


@dataclass(slots=True)
class AlignedWord:
    text: str
    tokens: list[int]
    start_s: float  # from the window's start
    end_s: float
    probability: float


def align_words(
    decoder: Decoder,
    tokenizer: WhisperTokenizer,
    cross: CrossCache,
    alignment_heads: Sequence[tuple[int, int]],
    start: Sequence[int],
    text_tokens: Sequence[int],
    language: str,
    *,
    num_frames: int,
    seconds_per_position: float,
) -> list[AlignedWord]:
    """The words of `text_tokens`, which were said in the window's first `num_frames`."""
    words = tokenizer.split_words(text_tokens, language)
    num_positions = min(num_frames // 2, cross.num_positions)
    if not words or num_positions == 0:
        return []
    begin = [*start, tokenizer.no_timestamps]
    observed: dict[int, list[torch.Tensor]] = {layer: [] for layer, _ in alignment_heads}
    window = Window(decoder, cross, 1)
    hidden = window.begin([*begin, *text_tokens, tokenizer.eot], observed)
    # Row i of the hidden states predicts token i + 1.
    logits = decoder.logits(hidden[len(begin) - 1 : len(begin) - 1 + len(text_tokens)])
    odds = logits[:, : tokenizer.eot].softmax(dim=-1)
    probabilities = odds.gather(1, torch.tensor(text_tokens)[:, None])[:, 0].numpy()

    scores = torch.stack([observed[layer][0][head] for layer, head in alignment_heads])  # [heads, N, S]
    matrix = _attention(scores[..., :num_positions])[len(start) : -1]  # the text's tokens, and the end
    token_at, position_at = warp(-matrix.double().numpy())
    jumps = np.concatenate(([True], np.diff(token_at) > 0))
    times = position_at[jumps] * seconds_per_position
    bounds = np.cumsum([0, *(len(tokens) for _, tokens in words)])
    return [
        AlignedWord(
            text,
            list(tokens),
            float(times[first]),
            float(times[last]),
            float(probabilities[first:last].mean()),
        )
        for (text, tokens), first, last in zip(words, bounds[:-1], bounds[1:], strict=True)
    ]


def _attention(scores: torch.Tensor) -> torch.Tensor:
    """[heads, N, M] -> [N, M]: what the heads agree on, sharpened against the mean over tokens."""
    weights = scores.softmax(dim=-1)
    std, mean = torch.std_mean(weights, dim=-2, keepdim=True, unbiased=False)
    weights = (weights - mean) / std.clamp(min=1e-12)
    return _median(weights).mean(dim=0)


def _median(x: torch.Tensor) -> torch.Tensor:
    """Of seven positions around each; too short a window is left as it is."""
    half = _MEDIAN_WIDTH // 2
    if x.shape[-1] <= half:
        return x
    padded = F.pad(x, (half, half, 0, 0), mode="reflect")
    return padded.unfold(-1, _MEDIAN_WIDTH, 1).sort()[0][..., half]


def warp(cost: npt.NDArray[np.float64]) -> Path:
    """The cheapest monotonous path through `cost` [N, M]: token and position of each of its points.

    Filled along anti-diagonals, whose cells do not depend on each other.
    """
    num_tokens, num_positions = cost.shape
    total = np.full((num_tokens + 1, num_positions + 1), np.inf)
    total[0, 0] = 0
    step = np.full((num_tokens + 1, num_positions + 1), 2, np.int8)  # 0 both, 1 token, 2 position
    step[:, 0] = 1
    for diagonal in range(2, num_tokens + num_positions + 1):
        rows = np.arange(max(1, diagonal - num_positions), min(num_tokens, diagonal - 1) + 1)
        columns = diagonal - rows
        both, token, position = (
            total[rows - 1, columns - 1],
            total[rows - 1, columns],
            total[rows, columns - 1],
        )
        use_both = (both < token) & (both < position)
        use_token = (token < both) & (token < position)
        choice = np.where(use_both, 0, np.where(use_token, 1, 2))
        step[rows, columns] = choice
        total[rows, columns] = cost[rows - 1, columns - 1] + np.choose(choice, (both, token, position))
    step[0, :] = 2
    i, j = num_tokens, num_positions
    path = []
    while i > 0 or j > 0:
        path.append((i - 1, j - 1))
        kind = step[i, j]
        i -= kind != 2
        j -= kind != 1
    tokens, positions = np.array(path[::-1]).T
    return tokens, positions


def typical_duration(words: Sequence[AlignedWord]) -> float:
    """Median length of a word in seconds, at most 0.7."""
    lengths = [word.end_s - word.start_s for word in words if word.end_s != word.start_s]
    return min(0.7, float(np.median(lengths))) if lengths else 0.0


def shorten_at_sentence_ends(words: Sequence[AlignedWord], longest_s: float) -> None:
    """Pauses after a full stop get counted to the stop or to the next word; neither lasts that long."""
    if not any(word.end_s != word.start_s for word in words):
        return
    marks = ".。!！?？"
    for before, word in pairwise(words):
        if word.end_s - word.start_s > longest_s:
            if word.text in marks:
                word.end_s = word.start_s + longest_s
            elif before.text in marks:
                word.start_s = word.end_s - longest_s


def merge_punctuation(words: list[AlignedWord]) -> None:
    """Punctuation joins the word it belongs to; what it leaves behind has no text and no tokens."""
    following = len(words) - 1
    for index in range(len(words) - 2, -1, -1):
        mark, word = words[index], words[following]
        if mark.text.startswith(" ") and mark.text.strip() in _PREPENDED:
            word.text, word.tokens = mark.text + word.text, mark.tokens + word.tokens
            mark.text, mark.tokens = "", []
        else:
            following = index
    previous = 0
    for index in range(1, len(words)):
        word, mark = words[previous], words[index]
        if not word.text.endswith(" ") and mark.text in _APPENDED:
            word.text, word.tokens = word.text + mark.text, word.tokens + mark.tokens
            mark.text, mark.tokens = "", []
        else:
            previous = index
