"""The contract of an encoder: packed sequences in, a hidden state per token out.

Encoders compute layer by layer as generators, so that whoever drives them can stop between two
layers and give the processor to somebody else (lane.py).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol

import torch

from stoker.embed.packing import PackedBatch

Steps = Generator[None, None, torch.Tensor]  # yields between layers; returns [T, hidden] float32


class Encoder(Protocol):
    hidden_size: int
    max_tokens: int  # of one sequence, special tokens included
    layer_parameters: int  # weights of one layer, which is what a step between two yields costs per token
    is_parallel: bool  # passes may run on several threads at once, each on one core
    nbytes: int  # memory the weights hold

    def steps(self, batch: PackedBatch) -> Steps: ...


# Logits of a cross-encoder from the hidden states: [T, hidden] -> [sequences, labels].
Head = Callable[[torch.Tensor, PackedBatch], torch.Tensor]
