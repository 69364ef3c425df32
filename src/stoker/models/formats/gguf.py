"""A .gguf file as a `Checkpoint`: weights under Hugging Face names, quantized ones kept so.

Puts the parts together (container, names, block formats, configuration, tokenizer); each
lives in its own gguf_*.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from stoker.errors import CorruptModel
from stoker.kernels.source import Form
from stoker.models.formats.gguf_config import hf_config
from stoker.models.formats.gguf_file import GgufFile, TensorInfo, read_gguf
from stoker.models.formats.gguf_metadata import Metadata
from stoker.models.formats.gguf_names import Source, is_rope_tensor, weight_sources
from stoker.models.formats.gguf_quants import form_of, to_quantized
from stoker.models.formats.gguf_rope import Factors
from stoker.models.formats.mapped import Bytes, MappedMatrix
from stoker.models.weights import MatrixSource, Weight, two_dimensions

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_DENSE = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_Order = np.ndarray[tuple[int], np.dtype[np.int64]]
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")


class GgufCheckpoint:
    """One GGUF model, in one file or in the shards llama.cpp splits large ones into.

    Dense weights are views of the file, for reading only; quantized ones are converted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        first = read_gguf(path)
        self._metadata = Metadata(first.metadata, path)
        self._home: dict[str, tuple[GgufFile, TensorInfo]] = {}
        for shard in _shards(path, first):
            for name, info in shard.tensors.items():
                self._home[name] = (shard, info)
        infos = {name: info for name, (_, info) in self._home.items()}
        self.config: dict[str, Any] = hf_config(self._metadata, infos, self._factors)
        self._sources = weight_sources(
            self._metadata.architecture, ((name, info.shape) for name, info in infos.items()), self.config
        )
        self.nbytes = sum(info.nbytes for info in infos.values())

    def names(self) -> Iterable[str]:
        return self._sources.keys()

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def get(self, name: str) -> Weight:
        source, place = self._find(name)
        if len(place.shape) == 2:
            matrix = self.matrix(name)
            return matrix.read(0, matrix.shape[0])
        raw = place.file.mapped.bytes[place.offset : place.offset + place.nbytes]
        if place.kind in _DENSE:
            if source.rope_heads is None:
                vector = place.file.mapped.tensor(place.offset, place.shape, _DENSE[place.kind])
            else:
                order = _rope_order(place.shape[0], source.rope_heads, name)
                rows = raw.reshape(place.shape[0], -1)[order]
                vector = torch.from_numpy(rows).view(_DENSE[place.kind]).reshape(place.shape)
        else:
            vector = (
                to_quantized(raw.reshape(1, -1), place.kind, place.shape[-1])
                .dequantize()
                .reshape(place.shape)
            )
            if source.rope_heads is not None:
                vector = vector[torch.from_numpy(_rope_order(place.shape[0], source.rope_heads, name))]
        return vector - 1 if source.minus_one else vector

    def matrix(self, name: str) -> MatrixSource:
        source, place = self._find(name)
        shape = two_dimensions(name, place.shape)
        order = None if source.rope_heads is None else _rope_order(shape[0], source.rope_heads, name)
        if order is None and place.kind in _DENSE:
            return MappedMatrix(place.file.mapped, place.offset, shape, _DENSE[place.kind])
        return _GgufMatrix(place, shape, order)

    def _find(self, name: str) -> tuple[Source, _Place]:
        source = self._sources.get(name)
        if source is None:
            raise CorruptModel(f"{self.path} has no weight for {name}")
        file, info = self._home[source.tensor]
        offset, nbytes, shape = info.offset, info.nbytes, info.shape
        if source.expert is not None:
            nbytes //= shape[0]
            offset += source.expert * nbytes
            shape = shape[1:]
        return source, _Place(file, info.kind, offset, nbytes, shape)

    @property
    def generation_config(self) -> dict[str, Any]:
        """What the tokenizer's metadata says about ending a reply."""
        from stoker.models.formats.gguf_tokenizer import end_of_generation_ids

        found = {"eos_token_id": end_of_generation_ids(self._metadata.values)}
        return found if found["eos_token_id"] else {}

    def tokenizer(self) -> tuple[Tokenizer, dict[str, Any]]:
        """The tokenizer and the content of the tokenizer_config.json it would have.
        Raises UnsupportedModel or CorruptModel."""
        from stoker.models.formats.gguf_tokenizer import build_tokenizer

        return build_tokenizer(self._metadata.values, str(self.path))

    def _factors(self, name: str) -> Factors | None:
        """A rope factor tensor; files that repeat it per layer repeat the same values."""
        for candidate in (f"{name}.weight", f"blk.0.{name}.weight"):
            if candidate in self._home and is_rope_tensor(candidate):
                file, info = self._home[candidate]
                if info.kind not in _DENSE:
                    raise CorruptModel(f"{self.path}: {candidate} is quantized")
                values = file.mapped.tensor(info.offset, info.shape, _DENSE[info.kind])
                factors: Factors = values.flatten().double().numpy()
                if not bool((np.isfinite(factors) & (factors > 0)).all()):
                    raise CorruptModel(f"{self.path}: {candidate} holds values that are not positive")
                return factors
        return None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a weight lies: a tensor, or the part of one that belongs to an expert."""

    file: GgufFile
    kind: str
    offset: int
    nbytes: int
    shape: tuple[int, ...]


class _GgufMatrix:
    """A matrix whose rows are converted, put in another order, or both."""

    def __init__(self, place: _Place, shape: tuple[int, int], order: _Order | None) -> None:
        self.shape = shape
        self.form: Form = _DENSE[place.kind] if place.kind in _DENSE else form_of(place.kind)
        self._place = place
        self._order = order  # for each row, its row in the file
        self._row_bytes = place.nbytes // max(1, shape[0])

    def read(self, first: int, last: int) -> Weight:
        start = self._place.offset
        if self._order is None:
            raw = self._bytes(start + first * self._row_bytes, last - first)
        else:
            raw = self._bytes(start, self.shape[0])[self._order[first:last]]
        if isinstance(self.form, torch.dtype):
            return torch.from_numpy(raw).view(self.form)
        return to_quantized(raw, self._place.kind, self.shape[1])

    def release(self, first: int, last: int) -> None:
        # Reordering stays within heads, so these are nearly the rows that were read.
        offset = self._place.offset + first * self._row_bytes
        self._place.file.mapped.release(offset, (last - first) * self._row_bytes)

    def _bytes(self, offset: int, rows: int) -> Bytes:
        raw = self._place.file.mapped.bytes[offset : offset + rows * self._row_bytes]
        return raw.reshape(rows, self._row_bytes)


def _rope_order(rows: int, heads: int, name: str) -> _Order:
    """For each row of the Hugging Face matrix, its row in the file.

    Within a head of d rows, llama.cpp's rope turns neighbours (2i, 2i+1), Hugging Face's turns
    (i, i + d/2): the converter interleaves the two halves, and this takes them apart again."""
    if rows % (2 * heads):
        raise CorruptModel(f"{name} has {rows} rows, which {heads} heads cannot share")
    order = np.arange(rows, dtype=np.int64).reshape(heads, rows // heads // 2, 2)
    return order.swapaxes(1, 2).reshape(-1)


def _shards(path: Path, first: GgufFile) -> list[GgufFile]:
    count = first.metadata.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return [first]
    match = _SHARD.fullmatch(path.name)
    if match is None or int(match[2]) != 1 or int(match[3]) != count:
        raise CorruptModel(
            f"{path} is part of a model split into {count} files; open the first, named like "
            f"model-00001-of-{count:05d}.gguf"
        )
    shards = [first]
    for number in range(2, count + 1):
        sibling = path.with_name(f"{match[1]}-{number:05d}-of-{count:05d}.gguf")
        if not sibling.exists():
            raise CorruptModel(f"{sibling} is missing: {path} is the first of {count} files")
        shards.append(read_gguf(sibling))
    return shards
