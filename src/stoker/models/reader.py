"""Turns a checkpoint's named weights into packed layers, a few rows at a time.

The one place that checks shapes, fuses projections, quantizes on load and keeps account of
what was read. A family asks for layers by name; formats are below, in Checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal

import torch

from stoker.errors import CorruptModel
from stoker.kernels.fill import Filler
from stoker.kernels.linear import PackedLinear, allocate
from stoker.kernels.source import MatrixSource, stack
from stoker.models.layers.linear import Linear, Projection, SideBySide
from stoker.models.layers.norm import RMSNorm
from stoker.models.quantize import Quantizing, group_size_for
from stoker.models.weights import Checkpoint, QuantizedTensor

logger = logging.getLogger(__name__)

# Where the decoder's weights start, and its output head: plain text models, and the text part
# of models that see images, in the two spellings in use.
_ROOTS = {
    "model": "lm_head",
    "language_model.model": "language_model.lm_head",
    "model.language_model": "lm_head",
}


class WeightReader:
    """Reads each weight once. Names are without `.weight`; sizes are output rows x input columns.
    A context: matrices are filled in the background, and hold their values after `finish`.

    All methods raise CorruptModel, naming the weight, when it is missing or misshapen.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        *,
        quantize: Literal[4, 8] | None = None,
        max_context: int | None = None,
        int8_planes: int = 0,
    ) -> None:
        self.checkpoint = checkpoint
        self.config: dict[str, Any] = checkpoint.config
        self.dtype = dtype
        self.device = torch.device(device)
        self.max_context = max_context  # asked for by whoever loads; None = the model's own
        self._bits = quantize
        self._int8_planes = int8_planes
        self._read: set[str] = set()
        self._matrices: list[PackedLinear] = []
        self._vector_bytes = 0
        self._filler = Filler(torch.get_num_threads())
        self.root = next((root for root in _ROOTS if f"{root}.embed_tokens.weight" in checkpoint), "model")
        self.head = _ROOTS[self.root]

    def __enter__(self) -> WeightReader:
        self._filler.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._filler.__exit__(*raised)

    def finish(self) -> int:
        """Waits until every matrix is filled; returns the bytes of memory all weights hold."""
        self._filler.finish()
        return self._vector_bytes + sum(matrix.nbytes for matrix in self._matrices)

    def has(self, name: str) -> bool:
        return f"{name}.weight" in self.checkpoint

    def matrix(self, name: str, rows: int, columns: int, *, quantizes: bool = True) -> PackedLinear:
        """One matrix, for multiplying or for looking rows up."""
        return self._pack(self._matrix(name, rows, columns), quantizes)

    def linear(
        self, name: str, rows: int, columns: int, *, bias: bool = False, quantizes: bool = True
    ) -> Linear:
        """A matrix and its bias. A bias is used whenever there is one, and `bias` requires it."""
        packed = self.matrix(name, rows, columns, quantizes=quantizes)
        return Linear(packed, self._bias(name, rows, required=bias))

    def fused(
        self, names: Sequence[str], rows: Sequence[int], columns: int, *, bias: bool = False
    ) -> Projection:
        """Several linear layers of one input as one, outputs concatenated in the order given."""
        parts = list(zip(names, rows, strict=True))
        sources = [self._matrix(name, size, columns) for name, size in parts]
        biases = [self._bias(name, size, required=bias) for name, size in parts]
        stacked = stack(sources)
        if stacked is None:
            pairs = zip(sources, biases, strict=True)
            return SideBySide([Linear(self._pack(source), bias) for source, bias in pairs])
        if all(one is None for one in biases):
            return Linear(self._pack(stacked))
        zeros = [torch.zeros(size, dtype=self.dtype, device=self.device) for size in rows]
        filled = [zero if one is None else one for one, zero in zip(biases, zeros, strict=True)]
        return Linear(self._pack(stacked), torch.cat(filled))

    def norm(self, name: str, size: int, eps: float, offset: float = 0.0) -> RMSNorm:
        """`offset` is 1 for Gemma, whose norms multiply by 1 + weight."""
        return RMSNorm(self.vector(name, size, offset), eps, self.dtype)

    def vector(self, name: str, size: int, offset: float = 0.0) -> torch.Tensor:
        """A norm's weights plus `offset`, float32 [size]."""
        values = self._tensor(f"{name}.weight", size).to(self.device, torch.float32)
        self._vector_bytes += values.nbytes
        return values + offset if offset else values

    def report_unused(self) -> None:
        """Log what the decoder has in the checkpoint and nobody asked for."""
        # Older checkpoints save the rotary frequencies, which follow from the config.
        unused = sorted(
            name
            for name in self.checkpoint.names()
            if name not in self._read and name.startswith(f"{self.root}.") and "rotary_emb" not in name
        )
        if unused:
            logger.debug("%d weights were not used: %s", len(unused), ", ".join(unused))

    def _pack(self, source: MatrixSource, quantizes: bool = True) -> PackedLinear:
        if self._bits is not None and quantizes and isinstance(source.form, torch.dtype):
            group_size = group_size_for(source.shape[1])
            if group_size is not None:
                source = Quantizing(source, self._bits, group_size)
        packed = allocate(source.shape, source.form, self.dtype, self.device, int8_planes=self._int8_planes)
        self._filler.add(packed, source)
        self._matrices.append(packed)
        return packed

    def _matrix(self, name: str, rows: int, columns: int) -> MatrixSource:
        full_name = f"{name}.weight"
        self._note(full_name)
        source = self.checkpoint.matrix(full_name)
        if source.shape != (rows, columns):
            raise CorruptModel(
                f"The weight {full_name} has shape {list(source.shape)}; "
                f"the model's configuration asks for {[rows, columns]}."
            )
        return source

    def _bias(self, name: str, size: int, *, required: bool) -> torch.Tensor | None:
        full_name = f"{name}.bias"
        if not required and full_name not in self.checkpoint:
            return None
        return self._tensor(full_name, size).to(self.device, self.dtype)

    def _tensor(self, full_name: str, size: int) -> torch.Tensor:
        self._note(full_name)
        weight = self.checkpoint.get(full_name)
        if isinstance(weight, QuantizedTensor) or tuple(weight.shape) != (size,):
            raise CorruptModel(
                f"The weight {full_name} has shape {list(weight.shape)}; "
                f"the model's configuration asks for {[size]}."
            )
        return weight

    def _note(self, full_name: str) -> None:
        if full_name not in self.checkpoint:
            raise CorruptModel(f"The model's files lack the weight {full_name}.")
        self._read.add(full_name)
