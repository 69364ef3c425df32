"""CTranslate2's model.bin, as faster-whisper uses it.

File: u32 version | string spec | u32 revision | u32 count, then per variable: string name, u8 rank,
u32 sizes, u8 type, u32 bytes, data | u32 count of aliases, then per alias: string alias, string name.
Strings have a u16 length that counts a closing zero. A quantized matrix has `weight_scale` beside it:
w = code / scale.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

import torch

from stoker.errors import CorruptModel, UnsupportedModel
from stoker.kernels.quantized import QuantizedTensor, Weight, slice_rows
from stoker.kernels.source import InMemory, MatrixSource
from stoker.models.formats.mapped import MappedFile, MappedMatrix
from stoker.speech.whisper.dims import Dimensions

_VERSION = 6
_SPEC = "WhisperSpec"
_MAX_VARIABLES = 100_000
_DTYPES = {
    0: torch.float32,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.float16,
    5: torch.bfloat16,
}
_GROUP_SIZES = (128, 64, 32)

# Hugging Face names to CTranslate2's, and the part of fused rows: (index, of how many).
_TOP = {
    "encoder.embed_positions.weight": "encoder/position_encodings/encodings",
    "decoder.embed_positions.weight": "decoder/position_encodings/encodings",
    "decoder.embed_tokens.weight": "decoder/embeddings/weight",
}
_NORMS = {
    "self_attn_layer_norm": "self_attention/layer_norm",
    "encoder_attn_layer_norm": "attention/layer_norm",
    "final_layer_norm": "ffn/layer_norm",
}
_MATRICES = {
    "self_attn.q_proj": ("self_attention/linear_0", 0, 3),
    "self_attn.k_proj": ("self_attention/linear_0", 1, 3),
    "self_attn.v_proj": ("self_attention/linear_0", 2, 3),
    "self_attn.out_proj": ("self_attention/linear_1", 0, 1),
    "encoder_attn.q_proj": ("attention/linear_0", 0, 1),
    "encoder_attn.k_proj": ("attention/linear_1", 0, 2),
    "encoder_attn.v_proj": ("attention/linear_1", 1, 2),
    "encoder_attn.out_proj": ("attention/linear_2", 0, 1),
    "fc1": ("ffn/linear_0", 0, 1),
    "fc2": ("ffn/linear_1", 0, 1),
}
_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)\.(weight|bias)")


@dataclass(frozen=True, slots=True)
class _Variable:
    shape: tuple[int, ...]
    dtype: torch.dtype
    offset: int
    nbytes: int


def is_ctranslate2(folder: Path) -> bool:
    try:
        with (folder / "model.bin").open("rb") as file:
            head = file.read(64)
    except OSError:
        return False
    return head[:4] == struct.pack("<I", _VERSION) and _SPEC.encode() in head


class _Reader:
    def __init__(self, file: MappedFile) -> None:
        self.file = file
        self.offset = 0

    def number(self, code: str) -> int:
        size = struct.calcsize(code)
        (value,) = struct.unpack(f"<{code}", self.take(size))
        return int(value)

    def text(self) -> str:
        return self.take(self.number("H")).rstrip(b"\0").decode("utf-8", "replace")

    def take(self, size: int) -> bytes:
        self._check(size)
        data = self.file.bytes[self.offset : self.offset + size].tobytes()
        self.offset += size
        return data

    def skip(self, size: int) -> None:
        self._check(size)
        self.offset += size

    def _check(self, size: int) -> None:
        if self.offset + size > self.file.nbytes:
            raise CorruptModel(f"{self.file.path} is truncated at {self.file.nbytes} bytes")


class Ctranslate2Weights:
    """Views of the mapped file, under Hugging Face names."""

    def __init__(self, path: Path) -> None:
        self._file = MappedFile(path)
        self._variables = _read_variables(self._file)
        self.dims = self._dimensions()

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        variable, _, _ = _locate(name)
        return variable in self._variables

    def get(self, name: str) -> Weight:
        variable, index, parts = _locate(name)
        whole = self._weight(variable)
        if parts == 1:
            return whole
        rows = whole.shape[0] // parts
        return slice_rows(whole, slice(index * rows, (index + 1) * rows))

    def matrix(self, name: str) -> MatrixSource:
        variable, index, parts = _locate(name)
        found = self._variables.get(variable)
        if found is None or not found.dtype.is_floating_point or len(found.shape) != 2:
            return InMemory(self.get(name))
        rows, columns = found.shape[0] // parts, found.shape[1]
        start = found.offset + index * rows * columns * found.dtype.itemsize
        return MappedMatrix(self._file, start, (rows, columns), found.dtype)

    def _weight(self, name: str) -> Weight:
        stored = self._tensor(name)
        if stored.dtype.is_floating_point:
            return stored
        if f"{name}_scale" not in self._variables:
            raise CorruptModel(f"{self._file.path}: {name} is quantized but has no scale")
        scale = self._tensor(f"{name}_scale").float()
        group = next((size for size in _GROUP_SIZES if stored.dim() == 2 and stored.shape[1] % size == 0), 0)
        if stored.dtype != torch.int8 or not group or scale.numel() != stored.shape[0]:
            shape = (-1, *[1] * (stored.dim() - 1)) if scale.numel() > 1 else (1,)
            return stored.float() / scale.reshape(shape)
        steps = (1.0 / scale.reshape(-1, 1)).expand(-1, stored.shape[1] // group).contiguous()
        codes = (stored.to(torch.int16) + 128).to(torch.uint8)
        return QuantizedTensor(codes, steps, steps * -128, 8, group)

    def _tensor(self, name: str) -> torch.Tensor:
        found = self._variables.get(name)
        if found is None:
            raise CorruptModel(f"{self._file.path} has no {name}")
        return self._file.tensor(found.offset, found.shape, found.dtype)

    def _scalar(self, name: str) -> int:
        return int(self._tensor(name).item())

    def _size(self, name: str, rank: int, axis: int) -> int:
        found = self._variables.get(name)
        if found is None or len(found.shape) != rank:
            raise CorruptModel(f"{self._file.path} has no {name} of {rank} dimensions")
        return found.shape[axis]

    def _layers(self, side: str) -> int:
        """Layers 0, 1, 2 ... that are there."""
        count = 0
        while f"{side}/layer_{count}/ffn/layer_norm/gamma" in self._variables:
            count += 1
        return count

    def _dimensions(self) -> Dimensions:
        return Dimensions(
            num_mels=self._size("encoder/conv1/weight", 3, 1),
            audio_ctx=self._size("encoder/position_encodings/encodings", 2, 0),
            text_ctx=self._size("decoder/position_encodings/encodings", 2, 0),
            width=self._size("encoder/conv1/weight", 3, 0),
            audio_heads=self._scalar("encoder/num_heads"),
            audio_layers=self._layers("encoder"),
            text_heads=self._scalar("decoder/num_heads"),
            text_layers=self._layers("decoder"),
            vocab_size=self._size("decoder/embeddings/weight", 2, 0),
        )


def _locate(name: str) -> tuple[str, int, int]:
    """CTranslate2's variable for a Hugging Face name, and which part of its rows: index, of how many."""
    plain = name.removeprefix("model.")
    if plain in _TOP:
        return _TOP[plain], 0, 1
    if match := _LAYER.fullmatch(plain):
        side, layer, module, leaf = match.groups()
        prefix = f"{side}/layer_{layer}/"
        if module in _NORMS:
            return f"{prefix}{_NORMS[module]}/{'gamma' if leaf == 'weight' else 'beta'}", 0, 1
        if module in _MATRICES:
            linear, index, parts = _MATRICES[module]
            return f"{prefix}{linear}/{leaf}", index, parts
    side, _, rest = plain.partition(".")
    module, _, leaf = rest.partition(".")
    if module == "layer_norm":
        return f"{side}/layer_norm/{'gamma' if leaf == 'weight' else 'beta'}", 0, 1
    return f"{side}/{module}/{leaf}", 0, 1


def _read_variables(file: MappedFile) -> dict[str, _Variable]:
    reader = _Reader(file)
    version, spec = reader.number("I"), reader.text()
    if version != _VERSION or spec != _SPEC:
        raise UnsupportedModel(
            f"{file.path}: CTranslate2 version {version}, {spec}; stoker reads {_SPEC} {_VERSION}"
        )
    reader.number("I")  # revision
    variables: dict[str, _Variable] = {}
    for _ in range(_count(reader)):
        name = reader.text()
        shape = tuple(reader.number("I") for _ in range(reader.number("B")))
        code, nbytes = reader.number("B"), reader.number("I")
        dtype = _DTYPES.get(code)
        if dtype is None:
            raise UnsupportedModel(f"{file.path}: {name} has type {code}, which stoker does not read")
        expected = dtype.itemsize
        for size in shape:
            expected *= size
        if expected != nbytes:
            raise CorruptModel(f"{file.path} is damaged: {name} needs {expected} bytes, has {nbytes}")
        variables[name] = _Variable(shape, dtype, reader.offset, nbytes)
        reader.skip(nbytes)
    for _ in range(_count(reader)):
        alias, name = reader.text(), reader.text()
        if name in variables:
            variables[alias] = variables[name]
    return variables


def _count(reader: _Reader) -> int:
    count = reader.number("I")
    if count > _MAX_VARIABLES:
        raise CorruptModel(f"{reader.file.path} is damaged: it claims {count} variables")
    return count
