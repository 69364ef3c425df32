"""Paged KV whose appending and attention run in the native kernel (CPU, float32 activations).

Storage and bookkeeping are those of paged.py; only the step's plan and `attend` differ.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import Any

import torch

from stoker.kernels import native
from stoker.kv.base import LayerSpec, RowSpan
from stoker.kv.blocks import BLOCK_SIZE
from stoker.kv.paged import PagedKV

_TYPES = {torch.float32: native.F32, torch.float16: native.F16}
_MAX_HEAD_DIM = 512  # kMaxHeadDim in native/attention.cpp


class NativePlan:
    """The rows of a step in the kernel's own form (StepRows in native/attention.h)."""

    def __init__(self, spans: Sequence[RowSpan]) -> None:
        # Arrays of the standard library: several times quicker to make than NumPy's, and this is done every
        # step while the cores wait.
        count = len(spans)
        numbers, first = array("q"), 0  # first, start and length of each row
        for span in spans:
            numbers.append(first)
            first += span.length
        numbers.extend([span.start for span in spans])
        numbers.extend([span.length for span in spans])
        tables = [span.row.blocks[: -(-(span.start + span.length) // BLOCK_SIZE)] for span in spans]
        width = max(map(len, tables))
        table = array("i")
        for blocks in tables:
            table.extend(blocks)
            table.extend([0] * (width - len(blocks)))
        self._kept = numbers, table  # for as long as the kernel may read them
        base = numbers.buffer_info()[0]
        self.rows = native.StepRows(
            count, base, base + 8 * count, base + 16 * count, table.buffer_info()[0], width
        )
        self.pointer = ctypes.addressof(self.rows)


class NativePagedKV(PagedKV):
    """Implements KVLayout (kv/base.py) on the CPU; see `can_run`."""

    def __init__(
        self, layers: Sequence[LayerSpec], *, num_blocks: int, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__(layers, num_blocks=num_blocks, dtype=dtype, device="cpu")
        library = native.library()
        assert library is not None
        self._attend = library.stoker_attend
        self.caches = [
            native.LayerCache(
                keys.data_ptr(),
                values.data_ptr(),
                _TYPES[dtype],
                spec.num_kv_heads,
                spec.head_dim,
                spec.window or 0,
                0.0,
                0.0,
            )
            for spec, keys, values in zip(self.layers, self.keys, self.values, strict=True)
        ]

    def plan(self, spans: Sequence[RowSpan]) -> Any:
        return NativePlan(spans)

    def attend(
        self,
        layer: int,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        plan: Any,
        *,
        scale: float,
        softcap: float | None = None,
    ) -> torch.Tensor:
        cache = self.caches[layer]
        cache.scale = scale
        cache.softcap = softcap or 0.0
        queries, keys, values = q.float().contiguous(), k.float().contiguous(), v.float().contiguous()
        out = torch.empty_like(queries)
        self._attend(
            native.team(),
            plan.pointer,
            ctypes.addressof(cache),
            q.shape[1],
            queries.data_ptr(),
            keys.data_ptr(),
            values.data_ptr(),
            out.data_ptr(),
        )
        return out.to(q.dtype)


def can_run(layers: Sequence[LayerSpec], dtype: torch.dtype, device: torch.device | str) -> bool:
    """Whether the native kernel handles these layers here."""
    return (
        native.library() is not None
        and torch.device(device).type == "cpu"
        and dtype in _TYPES
        and all(spec.head_dim % 8 == 0 and spec.head_dim <= _MAX_HEAD_DIM for spec in layers)
    )


def paged_kv(
    layers: Sequence[LayerSpec], *, num_blocks: int, dtype: torch.dtype, device: torch.device | str
) -> PagedKV:
    """The paged layout that is fastest here."""
    if can_run(layers, dtype, device):
        return NativePagedKV(layers, num_blocks=num_blocks, dtype=dtype)
    return PagedKV(layers, num_blocks=num_blocks, dtype=dtype, device=device)
