"""Attention of encoders on the native kernels (native/int16_attention.cpp), within whole sequences."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_float, c_int32, c_int64, c_void_p

import torch

from stoker.kernels import native

_TILE, _BLOCK = 16, 128  # kTile and kBlock in native/int16.h


class _EncoderAttention(ctypes.Structure):
    """EncoderAttention in native/int16_attention.cpp."""

    _fields_ = (
        ("q", c_void_p),
        ("k", c_void_p),
        ("v", c_void_p),
        ("q_stride", c_int64),
        ("k_stride", c_int64),
        ("v_stride", c_int64),
        ("firsts", c_void_p),
        ("lengths", c_void_p),
        ("num_sequences", c_int64),
        ("num_heads", c_int64),
        ("head_dim", c_int64),
        ("out", c_void_p),
        ("scale", c_float),
        ("padding", c_int32),
    )


def can_attend(head_dim: int, device: torch.device) -> bool:
    """Whether `attend_sequences` takes heads of this size there."""
    is_native = native.library() is not None and device.type == "cpu"
    return is_native and head_dim % _TILE == 0 and head_dim <= _BLOCK


def attend_sequences(
    q: torch.Tensor,  # float32 [T, H, D], as are k and v; tokens may lie apart, heads may not
    k: torch.Tensor,
    v: torch.Tensor,
    sequences: Sequence[tuple[int, int]],  # first token and length of each; they cover all T
    *,
    scale: float,
) -> torch.Tensor:
    """softmax(scale q k^T) v within each sequence: [T, H, D]. Queries, keys, values and exponentials are
    rounded to 13 bits; sums are exact. Runs on all of the kernels' threads."""
    library = native.library()
    assert library is not None
    num_tokens, num_heads, head_dim = q.shape
    out = torch.empty(num_tokens, num_heads, head_dim)
    numbers = c_int64 * len(sequences)
    firsts, lengths = (numbers(*column) for column in zip(*sequences, strict=True))
    attention = _EncoderAttention(
        *(x.data_ptr() for x in (q, k, v)),
        *(x.stride(0) for x in (q, k, v)),
        ctypes.addressof(firsts),
        ctypes.addressof(lengths),
        len(sequences),
        num_heads,
        head_dim,
        out.data_ptr(),
        scale,
        0,
    )
    library.stoker_encoder_attend(native.team(), ctypes.addressof(attention))
    return out
