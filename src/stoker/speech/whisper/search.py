"""Choosing tokens: one best row, several drawn at a temperature, or a beam. Knows logits and tokens only.

A search is asked after every step which tokens to feed next and which row each of them continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

# (logits [R, V], n) -> the n largest of each row, in order: their log-probabilities [R, n] and tokens [R, n]
Likeliest = Callable[[torch.Tensor, int], tuple[torch.Tensor, torch.Tensor]]


def likeliest(logits: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """By torch; native_step.py has a faster one."""
    top = logits.topk(count, dim=-1)
    return top.values - logits.logsumexp(dim=-1, keepdim=True), top.indices


@dataclass(frozen=True, slots=True)
class Candidate:
    tokens: tuple[int, ...]  # without the end
    sum_logprob: float


class Search(Protocol):
    sampled: list[list[int]]  # of each row

    def update(self, logits: torch.Tensor) -> list[int] | None:
        """Takes the filtered logits [R, V] of the rows. Returns the row each new row continues, or None
        when the search is over. The new rows' last tokens are in `sampled`."""
        ...

    def candidates(self) -> list[Candidate]: ...


@dataclass(slots=True)
class Sampling:
    """`count` independent rows: the likeliest token at temperature 0, else drawn."""

    temperature: float
    count: int
    eot: int
    generator: torch.Generator
    likeliest: Likeliest = likeliest
    sampled: list[list[int]] = field(default_factory=lambda: [[]])
    _sums: list[float] = field(default_factory=list)
    _ended: list[bool] = field(default_factory=list)

    def update(self, logits: torch.Tensor) -> list[int] | None:
        first = not self._sums
        if first:
            logits = logits.expand(self.count, -1)
            self.sampled = [[] for _ in range(self.count)]
            self._sums, self._ended = [0.0] * self.count, [False] * self.count
        if self.temperature == 0:
            gains, tokens = self.likeliest(logits, 1)
        else:
            odds = torch.softmax(logits / self.temperature, dim=-1)
            tokens = torch.multinomial(odds, 1, generator=self.generator)
            gains = logits.gather(1, tokens) - logits.logsumexp(dim=-1, keepdim=True)
        for row, (token, gain) in enumerate(zip(tokens[:, 0].tolist(), gains[:, 0].tolist(), strict=True)):
            if not self._ended[row]:
                self._sums[row] += gain
                self._ended[row] = token == self.eot
            self.sampled[row].append(self.eot if self._ended[row] else token)
        if all(self._ended):
            return None
        return [0] * self.count if first else list(range(self.count))

    def candidates(self) -> list[Candidate]:
        return [
            Candidate(_until(tokens, self.eot), total)
            for tokens, total in zip(self.sampled, self._sums, strict=True)
        ]


@dataclass(slots=True)
class Beam:
    """The `size` likeliest rows together; over when size * patience of them have ended."""

    size: int
    patience: float
    eot: int
    likeliest: Likeliest = likeliest
    sampled: list[list[int]] = field(default_factory=lambda: [[]])
    _sums: list[float] = field(default_factory=lambda: [0.0])
    _finished: list[Candidate] = field(default_factory=list)

    def update(self, logits: torch.Tensor) -> list[int] | None:
        gains, tokens = self.likeliest(logits, self.size + 1)
        options = [
            (self._sums[row] + gain, row, token)
            for row, (row_gains, row_tokens) in enumerate(zip(gains.tolist(), tokens.tolist(), strict=True))
            for gain, token in zip(row_gains, row_tokens, strict=True)
        ]
        options.sort(key=lambda option: -option[0])
        sampled: list[list[int]] = []
        sums: list[float] = []
        sources: list[int] = []
        limit = round(self.size * self.patience)
        for total, row, token in options:
            if token == self.eot:
                if len(self._finished) < limit:
                    self._finished.append(Candidate(tuple(self.sampled[row]), total))
                continue
            sampled.append([*self.sampled[row], token])
            sums.append(total)
            sources.append(row)
            if len(sources) == self.size:
                break
        self.sampled, self._sums = sampled, sums
        return None if len(self._finished) >= limit else sources

    def candidates(self) -> list[Candidate]:
        """The finished rows; where there are fewer than beams, the likeliest unfinished ones too."""
        rest = sorted(zip(self._sums, self.sampled, strict=True), key=lambda row: -row[0])
        missing = max(0, self.size - len(self._finished))
        return self._finished + [Candidate(tuple(tokens), total) for total, tokens in rest[:missing]]


def best(candidates: Sequence[Candidate], length_penalty: float | None) -> Candidate:
    """By mean log-probability, or by Google NMT's penalty (Wu et al., 2016, arXiv:1609.08144)."""

    def score(candidate: Candidate) -> float:
        length = len(candidate.tokens)
        penalty = max(1, length) if length_penalty is None else ((5 + length) / 6) ** length_penalty
        return candidate.sum_logprob / penalty

    return max(candidates, key=score)


def _until(tokens: list[int], end: int) -> tuple[int, ...]:
    return tuple(tokens[: tokens.index(end)] if end in tokens else tokens)
