"""From hidden states of tokens to one vector per sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch

from stoker.embed.packing import PackedBatch
from stoker.errors import CorruptModel, UnsupportedModel

Pooling = Literal["cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
POOLINGS: tuple[Pooling, ...] = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")

# Spellings of the flags in 1_Pooling/config.json.
_FLAGS: dict[Pooling, str] = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}


def read_poolings(config: Mapping[str, Any]) -> tuple[Pooling, ...]:
    """The modes of a pooling configuration; the vectors of several are concatenated."""
    if config.get("include_prompt") is False:
        raise UnsupportedModel("Pooling that leaves the prompt out (include_prompt: false) is not supported.")
    named = config.get("pooling_mode")
    if named is not None:
        wanted = [named] if isinstance(named, str) else list(named)
        if unknown := [name for name in wanted if name not in POOLINGS]:
            raise UnsupportedModel(f"Pooling {unknown[0]!r} is not supported.")
        return tuple(mode for name in wanted for mode in POOLINGS if mode == name)
    modes = tuple(mode for mode in POOLINGS if config.get(_FLAGS[mode]))
    if not modes:
        raise CorruptModel("The model's pooling configuration names no mode.")
    return modes


def pool(x: torch.Tensor, batch: PackedBatch, modes: tuple[Pooling, ...]) -> torch.Tensor:
    """[T, hidden] -> [sequences, hidden * modes]."""
    parts = []
    for run in batch.runs:
        states = x[run.first : run.first + run.count * run.length].view(run.count, run.length, -1)
        parts.append(torch.cat([_pool(states, mode) for mode in modes], dim=-1))
    return torch.cat(parts)


def _pool(states: torch.Tensor, mode: Pooling) -> torch.Tensor:
    """[count, length, hidden] -> [count, hidden]."""
    length = states.shape[1]
    if mode == "cls":
        return states[:, 0]
    if mode == "lasttoken":
        return states[:, -1]
    if mode == "max":
        return states.amax(1)
    if mode == "mean":
        return states.mean(1)
    if mode == "mean_sqrt_len_tokens":
        return states.sum(1) / math.sqrt(length)
    weights = torch.arange(1, length + 1, dtype=states.dtype, device=states.device)
    summed: torch.Tensor = (states * weights[:, None]).sum(1)
    return summed / weights.sum()
