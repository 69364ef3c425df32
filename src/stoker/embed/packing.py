"""Texts of one forward pass, laid end to end without padding, and attention over such a batch.

Sequences of equal length lie together, so attention runs once per length, on plain views and
without a mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass(frozen=True, slots=True)
class Run:
    """`count` sequences of `length` tokens, the first token at `first`."""

    first: int
    count: int
    length: int


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """T tokens of several sequences."""

    token_ids: torch.Tensor  # int64 [T]
    positions: torch.Tensor  # int64 [T], position of each token in its own sequence
    token_types: torch.Tensor | None  # int64 [T]; None = all zero
    runs: tuple[Run, ...]

    def sequences(self) -> Iterator[tuple[int, int]]:
        """First token and length of each sequence, in order."""
        for run in self.runs:
            for index in range(run.count):
                yield run.first + index * run.length, run.length


@dataclass(frozen=True, slots=True)
class Tokens:
    """One tokenized text, or pair of texts, with its special tokens."""

    ids: tuple[int, ...]
    num_first: int | None = None  # of a pair: tokens of type 0, the rest are of type 1


def pack_batch(sequences: Sequence[Tokens], device: torch.device | str = "cpu") -> PackedBatch:
    """`sequences` in the order given; equal lengths should be neighbours."""
    runs: list[Run] = []
    first = 0
    for sequence in sequences:
        length = len(sequence.ids)
        if runs and runs[-1].length == length:
            runs[-1] = Run(runs[-1].first, runs[-1].count + 1, length)
        else:
            runs.append(Run(first, 1, length))
        first += length
    ids = [id for sequence in sequences for id in sequence.ids]
    types = None
    if any(sequence.num_first is not None for sequence in sequences):
        types = torch.tensor([kind for sequence in sequences for kind in _types(sequence)], device=device)
    positions = torch.cat([torch.arange(run.length).repeat(run.count) for run in runs])
    return PackedBatch(torch.tensor(ids, device=device), positions.to(device), types, tuple(runs))


def _types(sequence: Tokens) -> list[int]:
    length = len(sequence.ids)
    num_first = length if sequence.num_first is None else sequence.num_first
    return [0] * num_first + [1] * (length - num_first)


def attend(
    q: torch.Tensor,  # [T, H, D]
    k: torch.Tensor,  # [T, J, D], H a multiple of J
    v: torch.Tensor,  # [T, J, D]
    runs: Sequence[Run],
    *,
    scale: float,
    causal: bool = False,
    reach: int | None = None,  # a token sees those less than so many positions away
) -> torch.Tensor:
    """Every token over its own sequence: [T, H, D]."""
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    for run in runs:
        shape = (run.count, run.length)
        span = slice(run.first, run.first + run.count * run.length)
        mask = _mask(run.length, causal, reach, q.device)
        attended = F.scaled_dot_product_attention(
            q[span].view(*shape, *q.shape[1:]).transpose(1, 2),
            k[span].view(*shape, *k.shape[1:]).transpose(1, 2),
            v[span].view(*shape, *v.shape[1:]).transpose(1, 2),
            attn_mask=mask,
            is_causal=causal and mask is None,
            scale=scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )  # [count, H, length, D]
        out[span].view(*shape, *q.shape[1:]).copy_(attended.transpose(1, 2))
    return out


def _mask(length: int, causal: bool, reach: int | None, device: torch.device) -> torch.Tensor | None:
    """None when the window hides nothing."""
    if reach is None or length <= reach:
        return None
    places = torch.arange(length, device=device)
    distance = places[:, None] - places[None, :]  # of the query past the key
    visible = distance.abs() < reach
    return visible & (distance >= 0) if causal else visible
