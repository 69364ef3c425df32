"""A .gguf file as a `Checkpoint`: weights under Hugging Face names, quantized ones kept so.

Puts the parts together (container, names, block formats, configuration, tokenizer); each
lives in its own gguf_*.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from stoker.errors import CorruptModel
from stoker.models.formats.gguf_config import hf_config
from stoker.models.formats.gguf_file import GgufFile, TensorInfo, read_gguf
from stoker.models.formats.gguf_metadata import Metadata
from stoker.models.formats.gguf_names import Source, is_rope_tensor, weight_sources
from stoker.models.formats.gguf_quants import FORMATS, to_quantized
from stoker.models.formats.gguf_rope import Factors
from stoker.models.weights import Weight

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_DENSE = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")


class GgufCheckpoint:
    """One GGUF model, in one file or in the shards llama.cpp splits large ones into.

    `get` returns views of the file for dense weights and converts quantized ones. Views are for
    reading only: the pages of a weight are given back when the next one is read, and come back
    from the file."""

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
        self._last: tuple[GgufFile, int, int] | None = None

    def names(self) -> Iterable[str]:
        return self._sources.keys()

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def get(self, name: str) -> Weight:
        source = self._sources.get(name)
        if source is None:
            raise CorruptModel(f"{self.path} has no weight for {name}")
        file, info = self._home[source.tensor]
        offset, nbytes, shape = _slice(info, source)
        self._release_last(file, offset, nbytes)
        if info.kind in _DENSE and source.rope_heads is None:
            dense = file.mapped.tensor(offset, shape, _DENSE[info.kind])
            return dense - 1 if source.minus_one else dense
        rows = file.mapped.bytes[offset : offset + nbytes].reshape(_rows(shape, info.kind), -1)
        read = None
        if source.rope_heads is None:
            # Pages go as soon as they are converted: file and result never lie in memory whole.
            def read(first: int, last: int) -> None:
                file.mapped.release(offset + first, last - first)
        else:
            rows = rows[_rope_order(rows.shape[0], source.rope_heads, name)]
        if info.kind in _DENSE:
            return torch.from_numpy(rows).view(_DENSE[info.kind]).reshape(shape)
        quantized = to_quantized(rows, info.kind, shape[-1], read)
        if len(shape) == 2 and not source.minus_one:
            return quantized
        dense = quantized.dequantize().reshape(shape)
        return dense - 1 if source.minus_one else dense

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

    def _release_last(self, file: GgufFile, offset: int, nbytes: int) -> None:
        if self._last is not None:
            last, last_offset, last_nbytes = self._last
            last.mapped.release(last_offset, last_nbytes)
        self._last = (file, offset, nbytes)


def _slice(info: TensorInfo, source: Source) -> tuple[int, int, tuple[int, ...]]:
    """Byte offset, bytes and shape of the part of a tensor that a source names."""
    if source.expert is None:
        return info.offset, info.nbytes, info.shape
    part = info.nbytes // info.shape[0]
    return info.offset + source.expert * part, part, info.shape[1:]


def _rows(shape: tuple[int, ...], kind: str) -> int:
    """How many rows of bytes: a vector has one element a row, so that rows can be reordered."""
    if len(shape) == 1:
        return 1 if kind in FORMATS else shape[0]
    rows = 1
    for size in shape[:-1]:
        rows *= size
    return rows


def _rope_order(rows: int, heads: int, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
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
