"""Grouped-query attention over a KV layout, with the options the families differ in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from stoker.kv.base import KVLayout, LayerSpec
from stoker.models.layers.linear import Projection
from stoker.models.layers.norm import RMSNorm
from stoker.models.layers.rope import Angles


@dataclass(frozen=True, slots=True)
class Step:
    """What every layer of one forward pass needs."""

    kv: KVLayout
    plan: Any  # of `kv`
    angles: tuple[Angles, ...]  # one for each of the model's ropes


class Attention:
    """Projects, normalizes, rotates, attends, projects back. See layers/__init__ for the legend."""

    __slots__ = (
        "head_norm",
        "layer",
        "num_heads",
        "output",
        "projection_norms",
        "qkv",
        "rope",
        "scale",
        "softcap",
        "spec",
    )

    def __init__(
        self,
        layer: int,
        spec: LayerSpec,
        num_heads: int,
        qkv: Projection,  # to [T, (H + 2J) * D]: all queries, then keys, then values
        output: Projection,
        *,
        rope: int | None = 0,  # which of Step.angles; None = no positions (NoPE)
        scale: float | None = None,  # of the attention scores; None = D ** -0.5
        softcap: float | None = None,  # of the attention scores
        head_norm: RMSNorm | None = None,  # weight [H + J, D]: each query and key head by itself
        projection_norms: tuple[RMSNorm, RMSNorm] | None = None,  # weights [H * D] and [J * D]
    ) -> None:
        self.layer = layer
        self.spec = spec
        self.num_heads = num_heads
        self.qkv = qkv
        self.output = output
        self.rope = rope
        self.scale = spec.head_dim**-0.5 if scale is None else scale
        self.softcap = softcap
        self.head_norm = head_norm
        self.projection_norms = projection_norms

    def forward(self, x: torch.Tensor, step: Step) -> torch.Tensor:
        """[T, hidden] -> [T, hidden], both in the compute dtype."""
        num_tokens = x.shape[0]
        num_heads, num_kv_heads, head_dim = self.num_heads, self.spec.num_kv_heads, self.spec.head_dim
        num_turned = num_heads + num_kv_heads

        qkv = self.qkv(x)
        qk = qkv[:, : num_turned * head_dim]  # queries and keys take every step together
        v = qkv[:, num_turned * head_dim :].view(num_tokens, num_kv_heads, head_dim)
        if self.projection_norms is not None:
            q_norm, k_norm = self.projection_norms
            width = num_heads * head_dim
            qk = torch.cat((q_norm(qk[:, :width]), k_norm(qk[:, width:])), dim=-1)
        qk = qk.view(num_tokens, num_turned, head_dim)
        if self.head_norm is not None:
            qk = self.head_norm(qk)
        if self.rope is not None:
            qk = step.angles[self.rope].rotate(qk)
        qk = qk.to(x.dtype)

        attended = step.kv.attend(
            self.layer,
            qk[:, :num_heads],
            qk[:, num_heads:],
            v,
            step.plan,
            scale=self.scale,
            softcap=self.softcap,
        )
        return self.output(attended.reshape(num_tokens, num_heads * head_dim))
