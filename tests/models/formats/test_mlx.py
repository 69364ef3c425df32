"""MLX-quantized folders, against a slow reader of the documented packing."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from stoker.errors import CorruptModel, UnsupportedModel
from stoker.models.formats.mlx import MlxCheckpoint, is_mlx_quantized
from stoker.models.weights import QuantizedTensor

_ROWS, _COLUMNS = 3, 256


def pack_row(codes: list[int], bits: int) -> bytes:
    """The row's codes as one little-endian bit stream: code i is bits [i * bits, (i + 1) * bits)."""
    stream = sum(code << (index * bits) for index, code in enumerate(codes))
    return stream.to_bytes(len(codes) * bits // 8, "little")


def pack(rows: list[list[int]], bits: int) -> torch.Tensor:
    content = b"".join(pack_row(row, bits) for row in rows)
    return torch.frombuffer(bytearray(content), dtype=torch.uint32).reshape(len(rows), -1)


def quantized_module(
    bits: int, group_size: int, dtype: torch.dtype = torch.bfloat16, seed: int = 0
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The three tensors, and the matrix they stand for, computed one weight at a time."""
    rng = random.Random(seed)
    rows = [[rng.randrange(2**bits) for _ in range(_COLUMNS)] for _ in range(_ROWS)]
    torch.manual_seed(seed)
    scales = torch.randn(_ROWS, _COLUMNS // group_size).to(dtype)
    biases = torch.randn(_ROWS, _COLUMNS // group_size).to(dtype)
    dense = [
        [
            torch.tensor(float(code)) * scales[r, c // group_size].float()
            + biases[r, c // group_size].float()
            for c, code in enumerate(row)
        ]
        for r, row in enumerate(rows)
    ]
    tensors = {"weight": pack(rows, bits), "scales": scales, "biases": biases}
    return tensors, torch.tensor(dense)


def write(folder: Path, quantization: dict[str, Any], **modules: dict[str, torch.Tensor]) -> MlxCheckpoint:
    tensors = {
        f"{module}.{leaf}".replace("__", "."): tensor
        for module, parts in modules.items()
        for leaf, tensor in parts.items()
    }
    save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "llama", "quantization": quantization}
    (folder / "config.json").write_text(json.dumps(config))
    return MlxCheckpoint(folder, config)


@pytest.mark.parametrize("group_size", [32, 64, 128])
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
def test_values(bits: int, group_size: int, tmp_path: Path) -> None:
    module, dense = quantized_module(bits, group_size, seed=bits * group_size)
    checkpoint = write(tmp_path, {"bits": bits, "group_size": group_size}, layer=module)
    weight = checkpoint.get("layer.weight")
    assert isinstance(weight, QuantizedTensor)
    assert weight.bits == (4 if bits <= 4 else 8)
    assert weight.group_size == group_size
    assert weight.shape == (_ROWS, _COLUMNS)
    assert torch.equal(weight.dequantize(), dense)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_scale_types_are_kept(dtype: torch.dtype, tmp_path: Path) -> None:
    module, dense = quantized_module(4, 64, dtype)
    weight = write(tmp_path, {"bits": 4, "group_size": 64}, layer=module).get("layer.weight")
    assert isinstance(weight, QuantizedTensor)
    assert weight.scales.dtype == weight.biases.dtype == dtype
    assert torch.equal(weight.dequantize(), dense)


@pytest.mark.parametrize("bits", [2, 3, 5, 6])
def test_row_blocks(bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.models.formats.mlx._BLOCK_ELEMENTS", _COLUMNS)
    module, dense = quantized_module(bits, 32)
    weight = write(tmp_path, {"bits": bits, "group_size": 32}, layer=module).get("layer.weight")
    assert isinstance(weight, QuantizedTensor)
    assert torch.equal(weight.dequantize(), dense)


def test_known_bytes(tmp_path: Path) -> None:
    """By hand: codes 1, 2, 3, ... in 3 bits are 0b...011_010_001, first byte 0xD1."""
    row = [1, 2, 3, 4, 5, 6, 7, 0] * 4
    packed = pack([row], 3)
    assert packed.view(torch.uint8)[0, :3].tolist() == [0b11010001, 0b01011000, 0b00011111]
    one = {"weight": packed, "scales": torch.ones(1, 1), "biases": torch.zeros(1, 1)}
    weight = write(tmp_path, {"bits": 3, "group_size": 32}, layer=one).get("layer.weight")
    assert isinstance(weight, QuantizedTensor)
    assert weight.dequantize().tolist() == [[float(code) for code in row]]


def test_names_and_dense_modules(tmp_path: Path) -> None:
    module, _ = quantized_module(4, 64)
    norm = torch.ones(8, dtype=torch.bfloat16)
    checkpoint = write(
        tmp_path,
        {"bits": 4, "group_size": 64},
        model__layers__0__mlp__up_proj=module | {"bias": norm.clone()},
        model__norm={"weight": norm},
    )
    names = {"model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.bias", "model.norm.weight"}
    assert set(checkpoint.names()) == names
    assert "model.layers.0.mlp.up_proj.scales" not in checkpoint
    dense = checkpoint.get("model.norm.weight")
    assert isinstance(dense, torch.Tensor)
    assert torch.equal(dense, norm)


def test_settings_per_module(tmp_path: Path) -> None:
    four, four_dense = quantized_module(4, 64)
    six, six_dense = quantized_module(6, 32)
    plain = torch.randn(4, 8)
    checkpoint = write(
        tmp_path,
        {"bits": 4, "group_size": 64, "b": {"bits": 6, "group_size": 32}, "c": False},
        a=four,
        b=six,
        c={"weight": plain},
    )
    for name, dense in (("a.weight", four_dense), ("b.weight", six_dense)):
        weight = checkpoint.get(name)
        assert isinstance(weight, QuantizedTensor)
        assert torch.equal(weight.dequantize(), dense)
    unquantized = checkpoint.get("c.weight")
    assert isinstance(unquantized, torch.Tensor)
    assert torch.equal(unquantized, plain)


def test_stacked_experts(tmp_path: Path) -> None:
    made = [quantized_module(4, 32, seed=expert) for expert in range(3)]
    stacked = {leaf: torch.stack([module[leaf] for module, _ in made]) for leaf in made[0][0]}
    checkpoint = write(
        tmp_path, {"bits": 4, "group_size": 32}, model__layers__1__mlp__switch_mlp__down_proj=stacked
    )
    names = [f"model.layers.1.mlp.experts.{expert}.down_proj.weight" for expert in range(3)]
    assert list(checkpoint.names()) == names
    for name, (_, dense) in zip(names, made, strict=True):
        weight = checkpoint.get(name)
        assert isinstance(weight, QuantizedTensor)
        assert torch.equal(weight.dequantize(), dense)


@pytest.mark.parametrize("mode", ["mxfp4", "nvfp4", "mxfp8"])
def test_other_modes_are_named(mode: str, tmp_path: Path) -> None:
    module, _ = quantized_module(4, 32)
    with pytest.raises(UnsupportedModel, match=f"mode '{mode}'"):
        write(tmp_path, {"bits": 4, "group_size": 32, "mode": mode}, layer=module)
    checkpoint = write(tmp_path, {"bits": 4, "group_size": 32, "layer": {"mode": mode}}, layer=module)
    with pytest.raises(UnsupportedModel, match=f"module layer .* mode {mode}"):
        checkpoint.get("layer.weight")


@pytest.mark.parametrize(
    "settings", [{"bits": 7, "group_size": 64}, {"bits": 4, "group_size": 48}, {"bits": "4"}]
)
def test_other_widths_are_named(settings: dict[str, Any], tmp_path: Path) -> None:
    module, _ = quantized_module(4, 64)
    with pytest.raises(UnsupportedModel, match="module layer is quantized with"):
        write(tmp_path, settings, layer=module).get("layer.weight")


def test_tensors_that_do_not_fit(tmp_path: Path) -> None:
    module, _ = quantized_module(4, 64)
    for change in (
        {"scales": torch.ones(_ROWS, 3), "biases": torch.ones(_ROWS, 3)},
        {"scales": torch.ones(_ROWS + 1, 4), "biases": torch.ones(_ROWS + 1, 4)},
        {"biases": torch.ones(_ROWS, 3, dtype=torch.bfloat16)},
        {"biases": torch.ones(_ROWS, 4, dtype=torch.float16)},
        {"weight": torch.ones(_ROWS, 32, dtype=torch.int32)},
    ):
        checkpoint = write(tmp_path, {"bits": 4, "group_size": 64}, layer=module | change)
        with pytest.raises(CorruptModel, match="layer"):
            checkpoint.get("layer.weight")
    del module["biases"]
    checkpoint = write(tmp_path, {"bits": 4, "group_size": 64}, layer=module)
    with pytest.raises(CorruptModel, match="no biases"):
        checkpoint.get("layer.weight")
    with pytest.raises(CorruptModel, match=r"no weight other\.weight"):
        checkpoint.get("other.weight")


def test_detection() -> None:
    assert is_mlx_quantized({"quantization": {"bits": 4, "group_size": 64}})
    assert not is_mlx_quantized({})
    assert not is_mlx_quantized({"quantization": None})
