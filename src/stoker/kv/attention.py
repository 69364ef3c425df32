"""Causal attention over gathered keys and values, with torch operators only.

The reference that native kernels are tested against, and what runs where there are none.
Legend: T tokens, H query heads, J key heads (H a multiple of J), S key positions, D head size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F


def attend_span(
    q: torch.Tensor,  # [T, H, D], consecutive positions of one row
    k: torch.Tensor,  # [J, S, D], positions 0.. of that row; those past the last query are ignored
    v: torch.Tensor,  # [J, S, D]
    *,
    start: int,  # position of the first query
    scale: float,
    window: int | None,
    softcap: float | None,
) -> torch.Tensor:
    """[T, H, D] in q's dtype."""
    num_tokens = q.shape[0]
    end = start + num_tokens
    first = 0 if window is None else max(0, start - window + 1)
    k, v = k[:, first:end].to(q.dtype), v[:, first:end].to(q.dtype)
    if start == 0 and softcap is None and (window is None or window >= end):
        return _sdpa(q.transpose(0, 1)[None], k[None], v[None], None, scale, causal=True)[0].transpose(0, 1)
    positions = torch.arange(start, end, device=q.device)[:, None]
    keys_at = torch.arange(first, end, device=q.device)[None, :]
    visible = keys_at <= positions
    if window is not None:
        visible &= keys_at > positions - window
    return _masked(q.transpose(0, 1)[None], k[None], v[None], visible, scale, softcap)[0].transpose(0, 1)


def attend_single_tokens(
    q: torch.Tensor,  # [R, H, D], one query for each of R rows
    k: torch.Tensor,  # [R, J, S, D], padded
    v: torch.Tensor,  # [R, J, S, D]
    *,
    lengths: torch.Tensor,  # int64 [R], valid positions of each row
    scale: float,
    window: int | None,
    softcap: float | None,
) -> torch.Tensor:
    """[R, H, D] in q's dtype."""
    keys_at = torch.arange(k.shape[2], device=q.device)[None, :]
    visible = keys_at < lengths[:, None]
    if window is not None:
        visible &= keys_at >= lengths[:, None] - window
    # Padding may hold anything, NaN included, and a mask does not undo a NaN.
    hidden = ~visible[:, None, :, None]
    k, v = k.to(q.dtype).masked_fill(hidden, 0), v.to(q.dtype).masked_fill(hidden, 0)
    out = _masked(q[:, :, None], k, v, visible[:, None, None], scale, softcap)
    return out[:, :, 0]


def _masked(
    q: torch.Tensor,  # [B, H, T, D]
    k: torch.Tensor,  # [B, J, S, D]
    v: torch.Tensor,
    visible: torch.Tensor,  # bool, broadcasts to [B, H, T, S]
    scale: float,
    softcap: float | None,
) -> torch.Tensor:
    if softcap is None:
        return _sdpa(q, k, v, visible, scale)
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = (q.float() @ k.float().transpose(-1, -2)) * scale
    scores = softcap * torch.tanh(scores / softcap)
    weights = scores.masked_fill(~visible, float("-inf")).softmax(-1)
    return (weights @ v.float()).to(q.dtype)


def _sdpa(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    visible: torch.Tensor | None,
    scale: float,
    causal: bool = False,
) -> torch.Tensor:
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=visible, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )
