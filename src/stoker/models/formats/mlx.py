"""MLX-quantized safetensors folders as a `Checkpoint`.

A quantized module has three tensors: `weight`, uint32 [N, K * bits / 32], `scales` and
`biases`, [N, K / group_size]; w = code * scale + bias. The codes of a row are consecutive
`bits`-wide fields of its bytes read as one little-endian bit stream, so that 3, 5 and 6 bits
straddle bytes (https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.quantize.html).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stoker.errors import CorruptModel, UnsupportedModel
from stoker.kernels.source import QuantizedForm
from stoker.models.formats.mapped import Bytes, MappedMatrix
from stoker.models.formats.safetensors import Entry, SafetensorsCheckpoint
from stoker.models.weights import MatrixSource, QuantizedTensor, Weight, two_dimensions

_BITS = (2, 3, 4, 5, 6, 8)
_GROUP_SIZES = (32, 64, 128)
_SCALE_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
_BLOCK_ELEMENTS = 4 * 1024 * 1024  # widened at a time
# mlx-lm stacks the experts of a layer: [experts, N, K].
_STACKED = re.compile(r"(.+\.mlp)\.switch_mlp\.(gate_proj|up_proj|down_proj)\.weight")


def is_mlx_quantized(config: Mapping[str, Any]) -> bool:
    return isinstance(config.get("quantization"), dict)


@dataclass(frozen=True, slots=True)
class _Source:
    tensor: str  # name in the file, ends in ".weight"
    expert: int | None = None


class MlxCheckpoint(SafetensorsCheckpoint):
    """4- and 8-bit codes are views of the file; other widths are widened when read: 2 and 3
    bits to 4, 5 and 6 bits to 8, without changing a value."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        super().__init__(folder, config)
        self._settings: dict[str, Any] = config["quantization"]
        mode = self._settings.get("mode", "affine")
        if mode != "affine":
            raise UnsupportedModel(f"{folder}: MLX quantization mode {mode!r} is not supported (affine is)")
        self._sources = self._find_sources()

    def names(self) -> Iterable[str]:
        return self._sources.keys()

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def get(self, name: str) -> Weight:
        source = self._source(name)
        if self._is_quantized(source) or source.expert is not None:
            matrix = self.matrix(name)
            return matrix.read(0, matrix.shape[0])
        return super().get(source.tensor)

    def matrix(self, name: str) -> MatrixSource:
        source = self._source(name)
        if self._is_quantized(source):
            return self._quantized(source)
        if source.expert is None:
            return super().matrix(source.tensor)
        entry, dtype = self._dense(source.tensor)
        return self._part(entry, dtype, source)

    def _source(self, name: str) -> _Source:
        source = self._sources.get(name)
        if source is None:
            raise CorruptModel(f"{self.folder} has no weight {name}")
        return source

    def _is_quantized(self, source: _Source) -> bool:
        return f"{source.tensor.removesuffix('.weight')}.scales" in self._entries

    def _quantized(self, source: _Source) -> MatrixSource:
        module = source.tensor.removesuffix(".weight")
        if f"{module}.biases" not in self._entries:
            raise CorruptModel(f"{self.folder}: module {module} has scales but no biases")
        packed, scales, biases = (
            self._part(*self.stored(f"{module}.{leaf}"), source) for leaf in ("weight", "scales", "biases")
        )
        bits, group_size = self._layout(module, packed, scales)
        if scales.form not in _SCALE_DTYPES or biases.form != scales.form or biases.shape != scales.shape:
            raise CorruptModel(f"{self.folder}: scales and biases of {module} do not belong together")
        return _MlxMatrix(packed, scales, biases, bits, group_size)

    def _part(self, entry: Entry, dtype: torch.dtype, source: _Source) -> MappedMatrix:
        """A stored matrix, or one expert's of those stacked in a tensor."""
        shape, offset = entry.shape, entry.offset
        if source.expert is not None:
            if not shape or source.expert >= shape[0]:
                raise CorruptModel(f"{self.folder}: {source.tensor} and its scales differ in experts")
            shape = shape[1:]
            offset += source.expert * (entry.nbytes // entry.shape[0])
        return MappedMatrix(entry.file, offset, two_dimensions(source.tensor, shape), dtype)

    def _find_sources(self) -> dict[str, _Source]:
        sources: dict[str, _Source] = {}
        for name, entry in self._entries.items():
            module, _, leaf = name.rpartition(".")
            if leaf in ("scales", "biases") and f"{module}.weight" in self._entries:
                continue
            stacked = _STACKED.fullmatch(name)
            if stacked is None or len(entry.shape) != 3:
                sources[name] = _Source(name)
                continue
            for expert in range(entry.shape[0]):
                sources[f"{stacked[1]}.experts.{expert}.{stacked[2]}.weight"] = _Source(name, expert)
        return sources

    def _layout(self, module: str, packed: MappedMatrix, scales: MappedMatrix) -> tuple[int, int]:
        """Bits and group size: the module's own entry in the configuration, or the general one,
        checked against the tensors."""
        own = self._settings.get(module)
        settings = self._settings | own if isinstance(own, dict) else self._settings
        bits, group_size = settings.get("bits"), settings.get("group_size", 64)
        mode = settings.get("mode", "affine")
        if mode != "affine" or bits not in _BITS or group_size not in _GROUP_SIZES:
            raise UnsupportedModel(
                f"{self.folder}: module {module} is quantized with {bits} bits in groups of {group_size}, "
                f"mode {mode}; stoker reads {_BITS} bits in groups of {_GROUP_SIZES}, mode affine"
            )
        if packed.form != torch.uint32:
            raise CorruptModel(f"{self.folder}: the quantized weight of {module} is not a uint32 matrix")
        columns = scales.shape[1] * group_size
        if packed.shape[0] != scales.shape[0] or packed.shape[1] * 32 != columns * bits:
            raise CorruptModel(
                f"{self.folder}: {module} has weight {packed.shape} and scales {scales.shape}, "
                f"which do not fit {bits} bits in groups of {group_size}"
            )
        return bits, group_size


class _MlxMatrix:
    def __init__(
        self, packed: MappedMatrix, scales: MappedMatrix, biases: MappedMatrix, bits: int, group_size: int
    ) -> None:
        self.shape = (scales.shape[0], scales.shape[1] * group_size)
        self.form = QuantizedForm(bits if bits in (4, 8) else 4 if bits < 4 else 8, group_size, scales.form)
        self._packed = packed
        self._scales = scales
        self._biases = biases
        self._bits = bits  # as stored

    def read(self, first: int, last: int) -> QuantizedTensor:
        packed = self._packed.read(first, last)
        codes = packed.view(torch.uint8) if self._bits in (4, 8) else _widen(packed, self._bits)
        scales, biases = self._scales.read(first, last), self._biases.read(first, last)
        return QuantizedTensor(codes, scales, biases, self.form.bits, self.form.group_size)

    def release(self, first: int, last: int) -> None:
        for part in (self._packed, self._scales, self._biases):
            part.release(first, last)


def _widen(packed: torch.Tensor, bits: int) -> torch.Tensor:
    """uint32 [N, K * bits / 32] -> codes as in QuantizedTensor: [N, K/2] for 2 and 3 bits,
    [N, K] for 5 and 6."""
    stream: Bytes = packed.view(torch.uint8).numpy()
    rows, columns = stream.shape[0], stream.shape[1] * 8 // bits
    out = np.empty((rows, columns // 2 if bits < 4 else columns), np.uint8)
    step = max(1, _BLOCK_ELEMENTS // max(1, columns))
    for first in range(0, rows, step):
        block = slice(first, first + step)
        _WIDEN[bits](stream[block].reshape(-1, bits), out[block].reshape(stream[block].size // bits, -1))
    return torch.from_numpy(out)


# Each takes runs of 8 codes, which fill `bits` whole bytes: [n, bits] -> [n, 4 or 8].


def _widen_2(run: Bytes, out: Bytes) -> None:
    for byte in range(2):
        value = run[:, byte]
        out[:, 2 * byte] = (value & 3) | ((value & 12) << 2)
        out[:, 2 * byte + 1] = ((value >> 4) & 3) | ((value >> 2) & 48)


def _widen_3(run: Bytes, out: Bytes) -> None:
    word = run[:, 0] | (run[:, 1].astype(np.uint32) << 8) | (run[:, 2].astype(np.uint32) << 16)
    for pair in range(4):
        out[:, pair] = ((word >> (6 * pair)) & 7) | (((word >> (6 * pair + 3)) & 7) << 4)


def _widen_5(run: Bytes, out: Bytes) -> None:
    word = sum(
        (run[:, byte].astype(np.uint64) << (8 * byte) for byte in range(1, 5)), run[:, 0].astype(np.uint64)
    )
    for code in range(8):
        out[:, code] = (word >> (5 * code)) & 31


def _widen_6(run: Bytes, out: Bytes) -> None:
    for half in range(2):  # 4 codes in 3 bytes, twice
        low, middle, high = run[:, 3 * half], run[:, 3 * half + 1], run[:, 3 * half + 2]
        out[:, 4 * half] = low & 63
        out[:, 4 * half + 1] = (low >> 6) | ((middle & 15) << 2)
        out[:, 4 * half + 2] = (middle >> 4) | ((high & 3) << 4)
        out[:, 4 * half + 3] = high >> 2


_WIDEN = {2: _widen_2, 3: _widen_3, 5: _widen_5, 6: _widen_6}
