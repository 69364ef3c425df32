"""How far a server's log-probabilities are from the reference's. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

import torch

# Compared positions of a prompt: after it and the first n tokens of the reference's greedy text, n from 0.
NUM_POSITIONS = 32


def top_differences(reference: torch.Tensor, found: Mapping[int, float], k: int) -> list[float]:
    """|log p - log p'| of the reference's k likeliest tokens at one position.

    reference  log-probabilities [vocabulary]
    found      the other's log-probabilities by token id, at least its own most likely ones. A token it
               does not list is at most as likely as the least one listed; that bound stands in for it.
    """
    least = min(found.values())
    values, ids = reference.topk(k)
    return [abs(a - found.get(i, least)) for a, i in zip(values.tolist(), ids.tolist(), strict=True)]


def mean_top5(reference: torch.Tensor, found: Mapping[int, float]) -> float:
    """Mean absolute difference of the top-5 log-probabilities at one position, in nats."""
    return fmean(top_differences(reference, found, 5))


def same_choice(reference: torch.Tensor, found: Mapping[int, float]) -> bool:
    """Whether both would pick the same token."""
    return max(found, key=found.__getitem__) == int(reference.argmax())
