"""Dense folders: values against the safetensors library, and damage that is named."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from stoker.errors import CorruptModel, UnsupportedModel
from stoker.models.formats.safetensors import SafetensorsCheckpoint

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    named = {f"layer.{index}.weight": torch.randn(5, 7).to(dtype) for index, dtype in enumerate(_DTYPES)}
    return named | {"norm.weight": torch.randn(3), "empty": torch.zeros(0, 4)}


def _write(folder: Path, tensors: dict[str, torch.Tensor]) -> SafetensorsCheckpoint:
    save_file(tensors, folder / "model.safetensors")
    return SafetensorsCheckpoint(folder, {})


def _write_raw(folder: Path, header: Any, data: bytes = b"", length: int | None = None) -> None:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = struct.pack("<Q", len(content) if length is None else length)
    (folder / "model.safetensors").write_bytes(size + content + data)


def test_values(tmp_path: Path) -> None:
    tensors = _tensors()
    checkpoint = _write(tmp_path, tensors)
    assert set(checkpoint.names()) == set(tensors)
    assert checkpoint.nbytes == sum(tensor.nbytes for tensor in tensors.values())
    for name, expected in tensors.items():
        weight = checkpoint.get(name)
        assert isinstance(weight, torch.Tensor)
        assert weight.dtype == expected.dtype
        assert torch.equal(weight, expected)


def test_views_outlive_the_checkpoint_and_later_reads(tmp_path: Path) -> None:
    tensors = _tensors()
    checkpoint = _write(tmp_path, tensors)
    kept = {name: checkpoint.get(name) for name in tensors}
    del checkpoint
    for name, expected in tensors.items():
        weight = kept[name]
        assert isinstance(weight, torch.Tensor)
        assert torch.equal(weight, expected)


def test_writing_to_a_view_leaves_the_file_alone(tmp_path: Path) -> None:
    tensors = _tensors()
    weight = _write(tmp_path, tensors).get("norm.weight")
    assert isinstance(weight, torch.Tensor)
    weight.zero_()
    again = SafetensorsCheckpoint(tmp_path, {}).get("norm.weight")
    assert isinstance(again, torch.Tensor)
    assert torch.equal(again, tensors["norm.weight"])


def test_unaligned_data_is_read(tmp_path: Path) -> None:
    """A header of odd length puts float32 data at an odd offset, which the format allows."""
    header = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    padding = b" " * (1 - len(json.dumps(header)) % 2)
    _write_raw(tmp_path, json.dumps(header).encode() + padding, struct.pack("<2f", 1.5, -2.0))
    weight = SafetensorsCheckpoint(tmp_path, {}).get("a")
    assert isinstance(weight, torch.Tensor)
    assert weight.tolist() == [1.5, -2.0]


def _shard(folder: Path) -> dict[str, torch.Tensor]:
    tensors = _tensors()
    names = sorted(tensors)
    files = {name: f"model-0000{1 + (index > 2)}-of-00002.safetensors" for index, name in enumerate(names)}
    for file in set(files.values()):
        save_file({name: tensors[name] for name in names if files[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    return tensors


def test_shards(tmp_path: Path) -> None:
    tensors = _shard(tmp_path)
    checkpoint = SafetensorsCheckpoint(tmp_path, {})
    assert set(checkpoint.names()) == set(tensors)
    for name, expected in tensors.items():
        weight = checkpoint.get(name)
        assert isinstance(weight, torch.Tensor)
        assert torch.equal(weight, expected)


def test_missing_shard_is_named(tmp_path: Path) -> None:
    _shard(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(CorruptModel, match=r"model-00002-of-00002\.safetensors is missing"):
        SafetensorsCheckpoint(tmp_path, {})


def test_tensor_missing_from_its_shard_is_named(tmp_path: Path) -> None:
    _shard(tmp_path)
    save_file({"other": torch.zeros(1)}, tmp_path / "model-00002-of-00002.safetensors")
    with pytest.raises(CorruptModel, match=r"00002-of-00002\.safetensors lacks the tensor"):
        SafetensorsCheckpoint(tmp_path, {})


def test_damaged_index(tmp_path: Path) -> None:
    _shard(tmp_path)
    index = tmp_path / "model.safetensors.index.json"
    for content, message in (
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "does not hold a JSON object"),
        ('{"weight_map": 3}', "no weight_map"),
        ('{"weight_map": {"a": 3}}', "no weight_map"),
        ('{"weight_map": {"a": "../model.safetensors"}}', "outside its folder"),
    ):
        index.write_text(content)
        with pytest.raises(CorruptModel, match=message):
            SafetensorsCheckpoint(tmp_path, {})


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    save_file({name: t for name, t in _tensors().items() if t.numel()}, tmp_path / "model.safetensors")
    content = (tmp_path / "model.safetensors").read_bytes()
    for length in [*range(0, len(content), 13), len(content) - 1]:
        (tmp_path / "model.safetensors").write_bytes(content[:length])
        with pytest.raises(CorruptModel, match=r"model\.safetensors"):
            SafetensorsCheckpoint(tmp_path, {})


def _entry(**change: Any) -> dict[str, Any]:
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | change}


@pytest.mark.parametrize(
    "header",
    [
        b"not json",
        b"\xff\xfe",
        b"[]",
        {"a": 3},
        {"a": {"dtype": "F32"}},
        _entry(shape=[-2]),
        _entry(shape=[1.5]),
        _entry(shape=None),
        _entry(shape=[3]),
        _entry(shape=[2**62, 2**62]),
        _entry(dtype=None),
        _entry(data_offsets=[8, 0]),
        _entry(data_offsets=[-8, 0]),
        _entry(data_offsets=[0, 2**64]),
        _entry(data_offsets=[0]),
        _entry(data_offsets="08"),
    ],
)
def test_damaged_header(header: Any, tmp_path: Path) -> None:
    _write_raw(tmp_path, header, bytes(8))
    with pytest.raises(CorruptModel, match=r"model\.safetensors"):
        SafetensorsCheckpoint(tmp_path, {})


@pytest.mark.parametrize("length", [2**63, 2**40, 1000])
def test_header_length_beyond_the_file(length: int, tmp_path: Path) -> None:
    _write_raw(tmp_path, _entry(), bytes(8), length=length)
    with pytest.raises(CorruptModel, match=f"claims {length} bytes"):
        SafetensorsCheckpoint(tmp_path, {})


def test_float8_is_refused_by_name(tmp_path: Path) -> None:
    checkpoint = _write(tmp_path, {"a": torch.zeros(4).to(torch.float8_e4m3fn), "b": torch.zeros(4)})
    checkpoint.get("b")
    with pytest.raises(UnsupportedModel, match="weight a is stored as F8_E4M3"):
        checkpoint.get("a")


def test_integers_are_not_weights(tmp_path: Path) -> None:
    checkpoint = _write(tmp_path, {"a": torch.zeros(4, dtype=torch.int32)})
    with pytest.raises(UnsupportedModel, match="stored as I32; stoker reads F32"):
        checkpoint.get("a")


def test_missing_weight_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptModel, match="no weight absent"):
        _write(tmp_path, _tensors()).get("absent")


def test_folder_without_weights(tmp_path: Path) -> None:
    with pytest.raises(CorruptModel, match=r"no \.safetensors file"):
        SafetensorsCheckpoint(tmp_path, {})


def test_a_second_copy_beside_the_model_is_ignored(tmp_path: Path) -> None:
    """Mistral's repositories also hold consolidated.safetensors, the same under other names."""
    save_file({"theirs": torch.zeros(2)}, tmp_path / "consolidated.safetensors")
    assert list(_write(tmp_path, {"ours": torch.zeros(2)}).names()) == ["ours"]
    (tmp_path / "model.safetensors").rename(tmp_path / "model-00001-of-00001.safetensors")
    assert list(SafetensorsCheckpoint(tmp_path, {}).names()) == ["ours"]
