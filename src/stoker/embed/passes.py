"""The forward passes that a request's items take, as work that stops between layers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from stoker.embed.batching import plan_passes
from stoker.embed.encoder import Encoder
from stoker.embed.packing import PackedBatch, Tokens, pack_batch

Vectors = np.ndarray[tuple[int, int], np.dtype[np.float32]]
PassWork = Generator[None, None, Vectors]
Finish = Callable[[torch.Tensor, PackedBatch], torch.Tensor]  # hidden states -> [n, numbers per item]


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass: `work` is driven to its end, and row i of what it returns is of item at[i]."""

    at: tuple[int, ...]
    work: PassWork


def make_passes(encoder: Encoder, items: Sequence[Tokens], device: str, finish: Finish) -> list[Pass]:
    """The work that makes float32 [n, numbers per item] of n items."""
    groups = plan_passes([len(item.ids) for item in items], encoder.layer_parameters)
    return [
        Pass(group, _compute(encoder, [items[index] for index in group], device, finish)) for group in groups
    ]


def _compute(encoder: Encoder, items: Sequence[Tokens], device: str, finish: Finish) -> PassWork:
    with torch.inference_mode():
        batch = pack_batch(items, device)
    steps = encoder.steps(batch)
    while True:
        # Not around the yield: the mode belongs to a thread, and another may drive the next step.
        with torch.inference_mode():
            try:
                next(steps)
            except StopIteration as end:
                vectors: Vectors = finish(end.value, batch).float().cpu().numpy()
                return vectors
        yield
