"""Matrices that are read a block of rows at a time, so that none lies in memory twice."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import torch

from stoker.kernels.quantized import Weight, concat, slice_rows


@dataclass(frozen=True, slots=True)
class QuantizedForm:
    """The kind of groups a quantized matrix has (QuantizedTensor)."""

    bits: int
    group_size: int
    scale_dtype: torch.dtype


Form = torch.dtype | QuantizedForm  # a dense matrix has only a dtype


def form_of(weight: Weight) -> Form:
    if isinstance(weight, torch.Tensor):
        return weight.dtype
    return QuantizedForm(weight.bits, weight.group_size, weight.scales.dtype)


class MatrixSource(Protocol):
    """A matrix [N, K] that may still lie in a file. Safe to use from several threads."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def form(self) -> Form:
        """What `read` gives. Scales that the form's dtype cannot hold come as float32 all the same."""
        ...

    def read(self, first: int, last: int) -> Weight:
        """Rows first..last-1, for reading only: perhaps a view of the file."""
        ...

    def release(self, first: int, last: int) -> None:
        """These rows have been used and need not stay in memory."""
        ...


class InMemory:
    """A weight that is there already."""

    def __init__(self, weight: Weight) -> None:
        rows, columns = weight.shape
        self.shape = (rows, columns)
        self.form = form_of(weight)
        self._weight = weight

    def read(self, first: int, last: int) -> Weight:
        return slice_rows(self._weight, slice(first, last))

    def release(self, first: int, last: int) -> None:
        pass


class Stacked:
    """Matrices of one form, one above the other: Q, K and V as one product, or gate and up."""

    def __init__(self, parts: Sequence[MatrixSource]) -> None:
        self.form = parts[0].form
        self._parts = parts
        self._starts = [0, *accumulate(part.shape[0] for part in parts)]
        self.shape = (self._starts[-1], parts[0].shape[1])

    def read(self, first: int, last: int) -> Weight:
        return concat([part.read(*rows) for part, rows in self._within(first, last)])

    def release(self, first: int, last: int) -> None:
        for part, rows in self._within(first, last):
            part.release(*rows)

    def _within(self, first: int, last: int) -> list[tuple[MatrixSource, tuple[int, int]]]:
        """The parts that share rows with first..last-1, and which rows of theirs."""
        found = []
        for index in range(bisect_right(self._starts, first) - 1, len(self._parts)):
            start, end = self._starts[index : index + 2]
            if start >= last:
                break
            found.append((self._parts[index], (max(first, start) - start, min(last, end) - start)))
        return found


def stack(parts: Sequence[MatrixSource]) -> MatrixSource | None:
    """The parts as one matrix, or None when their forms differ."""
    if len({part.form for part in parts}) != 1:
        return None
    return Stacked(parts)
