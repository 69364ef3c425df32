"""Feed-forward blocks: the gated MLP, and a mixture of gated MLPs as experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from stoker.errors import UnsupportedModel
from stoker.kernels.activations import FUNCTIONS, Activation
from stoker.models.layers.linear import Linear, Projection


def find_activation(name: str) -> Activation:
    """The function Hugging Face configs call `name`. Raises UnsupportedModel."""
    if name not in FUNCTIONS:
        raise UnsupportedModel(
            f"The activation {name!r} is not supported. Supported: {', '.join(sorted(FUNCTIONS))}."
        )
    return FUNCTIONS[name]


class FeedForward(Protocol):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[T, hidden] -> [T, hidden]."""
        ...


class GatedMLP:
    """down(activation(gate(x)) * up(x)) (Shazeer 2020, arXiv:2002.05202)."""

    __slots__ = ("activation", "down", "gate_up")

    def __init__(self, gate_up: Projection, down: Projection, activation: Activation) -> None:
        self.gate_up = gate_up  # to [T, 2 * intermediate]: gate, then up
        self.down = down
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(self.activation(gate) * up)


class MixtureOfExperts:
    """Each token goes to the `top_k` experts its router likes best, and their answers are
    summed by the router's probabilities."""

    __slots__ = ("experts", "normalizes", "router", "top_k")

    def __init__(
        self,
        router: Linear,  # to [T, number of experts]
        experts: Sequence[GatedMLP],
        top_k: int,
        normalizes: bool,  # the chosen probabilities are made to sum to 1
    ) -> None:
        self.router = router
        self.experts = tuple(experts)
        self.top_k = top_k
        self.normalizes = normalizes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[T, hidden] -> [T, hidden] float32."""
        probabilities = self.router(x).float().softmax(-1)
        weights, chosen = probabilities.topk(self.top_k, dim=-1)  # [T, top_k]
        if self.normalizes:
            weights = weights / weights.sum(-1, keepdim=True)

        # Sort the T * top_k assignments by expert, so that each expert runs once on all its tokens.
        order = chosen.flatten().argsort(stable=True)
        token_of = order // self.top_k
        weight_of = weights.flatten()[order, None]
        counts: list[int] = chosen.flatten().bincount(minlength=len(self.experts)).tolist()

        out = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
        first = 0
        for expert, count in zip(self.experts, counts, strict=True):
            if count:
                tokens = token_of[first : first + count]
                answers = expert.forward(x[tokens]).float() * weight_of[first : first + count]
                out.index_add_(0, tokens, answers)
                first += count
        return out
