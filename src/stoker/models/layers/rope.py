"""Rotary position embeddings (Su et al. 2021, arXiv:2104.09864), half-split as in Hugging Face.

Angles are computed once per step, in float32, and shared by all layers. How a long-context
variant changes the frequencies is in rope_scaling.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from stoker.models.layers.rope_scaling import inverse_frequencies


class Angles:
    """The rotation of each token of a step. R rotated dimensions, the first of each head."""

    __slots__ = ("cos", "sin")

    def __init__(self, cos: torch.Tensor, sin: torch.Tensor) -> None:
        self.cos = cos  # float32 [T, 1, R]
        self.sin = sin  # float32 [T, 1, R], the first half negated

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        """[T, heads, D] -> the same, float32."""
        x = x.float()
        size = self.cos.shape[-1]
        if size == x.shape[-1]:
            return torch.addcmul(x * self.cos, x.roll(size // 2, -1), self.sin)
        turned = x[..., :size]
        turned = torch.addcmul(turned * self.cos, turned.roll(size // 2, -1), self.sin)
        return torch.cat((turned, x[..., size:]), dim=-1)


class Rope:
    """One set of frequencies; a model has one or two."""

    __slots__ = ("factor", "frequencies", "signs")

    def __init__(
        self, parameters: Mapping[str, Any], head_dim: int, max_context: int, device: torch.device
    ) -> None:
        """`parameters` as hyperparameters.rope_parameters gives them."""
        size = int(head_dim * parameters.get("partial_rotary_factor", 1.0))
        frequencies, factor = inverse_frequencies(parameters, size, max_context)
        self.factor = factor  # the variant's scaling of cos and sin
        self.frequencies = torch.cat((frequencies, frequencies)).to(device)  # [R]
        signs = torch.full((size,), factor)
        signs[: size // 2] *= -1
        self.signs = signs.to(device)

    def at(self, positions: torch.Tensor) -> Angles:
        """Angles for int64 positions [T]."""
        # Cheaper than a table: a few microseconds a step, no growth, no synchronization.
        phases = positions[:, None, None] * self.frequencies
        return Angles(phases.cos() * self.factor, phases.sin() * self.signs)
