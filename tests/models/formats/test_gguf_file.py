"""The container: what gguf's own writer wrote is read back, and damage is named, never a crash."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from stoker.errors import CorruptModel, ModelError, ModelNotFound, UnsupportedModel
from stoker.models.formats.gguf import GgufCheckpoint
from stoker.models.formats.gguf_file import GGML_TYPES, read_gguf

_TOKENS = ["<unk>", "<s>", "</s>", "a", "b", "ab", "é"]


def _write(path: Path) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    for key in ("context_length", "embedding_length", "block_count", "feed_forward_length"):
        writer.add_uint32(f"llama.{key}", 32)
    writer.add_uint32("llama.attention.head_count", 4)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_bool("a.flag", True)
    writer.add_int64("a.long", -5)
    writer.add_string("a.text", "ünïcode")
    writer.add_array("a.floats", [0.5, 1.5])
    writer.add_array("a.words", ["x", "", "yz"])
    writer.add_tokenizer_model("llama")
    writer.add_token_list(_TOKENS)
    writer.add_token_scores([0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -4.0])
    writer.add_token_types([2, 3, 3, 1, 1, 1, 1])
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((32, 32)).astype(np.float32)
    writer.add_tensor("token_embd.weight", matrix)
    quantized = gguf.quants.quantize(matrix, Kind.Q4_0)
    writer.add_tensor("blk.0.attn_q.weight", quantized, raw_dtype=Kind.Q4_0)
    writer.add_tensor("output_norm.weight", matrix[0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return _write(tmp_path_factory.mktemp("gguf") / "sound.gguf").read_bytes()


@pytest.fixture
def damaged(sound: bytes, tmp_path: Path) -> Callable[[Callable[[bytearray], Any]], Path]:
    def write(change: Callable[[bytearray], Any]) -> Path:
        content = bytearray(sound)
        change(content)
        path = tmp_path / "damaged.gguf"
        path.write_bytes(content)
        return path

    return write


def _put(at: int, code: str, value: int) -> Callable[[bytearray], Any]:
    return lambda content: struct.pack_into(code, content, at, value)


def test_metadata_and_tensors(sound: bytes, tmp_path: Path) -> None:
    path = tmp_path / "sound.gguf"
    path.write_bytes(sound)
    file = read_gguf(path)
    reader = gguf.GGUFReader(path)
    for name, field in reader.fields.items():
        if not name.startswith("GGUF."):
            value = file.metadata[name]
            assert (value.tolist() if isinstance(value, np.ndarray) else value) == field.contents()
    assert file.metadata["a.text"] == "ünïcode"
    assert list(file.tensors) == [tensor.name for tensor in reader.tensors]
    for tensor in reader.tensors:
        info = file.tensors[tensor.name]
        assert (info.kind, info.offset, info.nbytes) == (
            tensor.tensor_type.name,
            tensor.data_offset,
            tensor.n_bytes,
        )
        assert info.shape == tuple(reversed(tensor.shape.tolist()))


def test_version_2_is_the_same(damaged: Callable[..., Path]) -> None:
    assert list(read_gguf(damaged(_put(4, "<I", 2))).tensors) == [
        "token_embd.weight",
        "blk.0.attn_q.weight",
        "output_norm.weight",
    ]


def test_type_table_agrees_with_the_package() -> None:
    for number, (name, elements, nbytes) in GGML_TYPES.items():
        assert Kind(number).name == name
        assert gguf.GGML_QUANT_SIZES[Kind(number)] == (elements, nbytes)


def test_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"absent\.gguf"):
        read_gguf(tmp_path / "absent.gguf")


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.gguf").touch()
    with pytest.raises(CorruptModel, match=r"empty\.gguf is empty"):
        read_gguf(tmp_path / "empty.gguf")


def test_every_truncation_is_noticed(sound: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    for length in [*range(1, 1200, 7), *range(1200, len(sound), 199), len(sound) - 1]:
        path.write_bytes(sound[:length])
        with pytest.raises(CorruptModel, match=r"cut\.gguf"):
            read_gguf(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.__setitem__(slice(0, 4), b"GGML"), "not a GGUF file"),
        (_put(8, "<Q", 2**60), "a count of"),
        (_put(8, "<Q", 2**64 - 1), "a count of"),
        (_put(16, "<Q", 2**63), "a count of"),
        (_put(24, "<Q", 2**64 - 1), "bytes expected"),  # length of the first key
        (_put(24, "<Q", 2**40), "bytes expected"),
    ],
)
def test_damaged_header(damaged: Callable[..., Path], change: Callable[..., Any], message: str) -> None:
    with pytest.raises(CorruptModel, match=message):
        read_gguf(damaged(change))


@pytest.mark.parametrize(
    ("version", "message"),
    [(1, "version 1"), (4, "version 4"), (2**31, "version 2147483648"), (0x03000000, "big-endian")],
)
def test_other_versions(damaged: Callable[..., Path], version: int, message: str) -> None:
    with pytest.raises(UnsupportedModel, match=message):
        read_gguf(damaged(_put(4, "<I", version)))


def _after(content: bytes, name: str) -> int:
    return content.index(struct.pack("<Q", len(name)) + name.encode()) + 8 + len(name)


def test_damaged_tensor_entries(sound: bytes, damaged: Callable[..., Path]) -> None:
    at = _after(sound, "blk.0.attn_q.weight")  # rank u32, 2 sizes u64, type u32, offset u64
    for change, message in (
        (_put(at, "<I", 0), "has 0 dimensions"),
        (_put(at, "<I", 9), "has 9 dimensions"),
        (_put(at + 4, "<Q", 0), "has a size of 0"),
        (_put(at + 4, "<Q", 33), "not a multiple of Q4_0's 32"),
        (_put(at + 12, "<Q", 2**62), "truncated"),
        (_put(at + 24, "<Q", 2**63), "truncated"),
    ):
        with pytest.raises(CorruptModel, match=message):
            read_gguf(damaged(change))


@pytest.mark.parametrize(("number", "name"), [(16, "IQ2_XXS"), (39, "MXFP4"), (999, "number 999")])
def test_unread_types_are_named(sound: bytes, damaged: Callable[..., Path], number: int, name: str) -> None:
    at = _after(sound, "blk.0.attn_q.weight")
    with pytest.raises(UnsupportedModel, match=rf"blk\.0\.attn_q\.weight is stored as {name}"):
        read_gguf(damaged(_put(at + 20, "<I", number)))


def test_duplicate_tensor(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "twice.gguf", "llama")
    writer.add_tensor("one.weight", np.zeros(4, np.float32))
    writer.add_tensor("two.weight", np.zeros(4, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path = tmp_path / "twice.gguf"
    path.write_bytes(path.read_bytes().replace(b"two.weight", b"one.weight"))
    with pytest.raises(CorruptModel, match=r"one\.weight twice"):
        read_gguf(path)


def test_random_damage_never_escapes(sound: bytes, tmp_path: Path) -> None:
    """Whatever bytes are there: a model error, or a checkpoint that works as far as it goes."""
    rng = random.Random(7)
    path = tmp_path / "fuzzed.gguf"
    header = sound.index(b"output_norm.weight") + 60
    opened = 0
    for _ in range(1500):
        content = bytearray(sound)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(header)
            content[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        path.write_bytes(content)
        try:
            checkpoint = GgufCheckpoint(path)
            for name in checkpoint.names():
                checkpoint.get(name)
            checkpoint.tokenizer()
            opened += 1
        except ModelError:
            pass
    assert opened > 100  # the damage was not so coarse that everything failed at once
