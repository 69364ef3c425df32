"""Which format a path is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from stoker.errors import CorruptModel, ModelNotFound, UnsupportedModel
from stoker.models.formats import open_checkpoint
from stoker.models.formats.gguf import GgufCheckpoint
from stoker.models.formats.mlx import MlxCheckpoint
from stoker.models.formats.safetensors import SafetensorsCheckpoint

from .tiny_gguf import CASES, make_tiny, write_gguf


def _folder(folder: Path, **config: Any) -> Path:
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"} | config))
    save_file({"a.weight": torch.ones(2)}, folder / "model.safetensors")
    return folder


def test_folders(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(_folder(tmp_path))
    assert type(checkpoint) is SafetensorsCheckpoint
    assert checkpoint.config == {"model_type": "llama"}
    assert checkpoint.generation_config == {}
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    assert checkpoint.generation_config == {"eos_token_id": [1, 2]}
    assert isinstance(open_checkpoint(str(_folder(tmp_path, quantization={"bits": 4}))), MlxCheckpoint)


@pytest.mark.parametrize("method", ["awq", "gptq", "fp8", "bitsandbytes"])
def test_other_quantizations_are_named(method: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=f"quantized with {method}"):
        open_checkpoint(_folder(tmp_path, quantization_config={"quant_method": method}))


def test_gguf(tmp_path: Path) -> None:
    (tmp_path / "hf").mkdir()
    write_gguf(make_tiny(CASES[0], tmp_path / "hf"), tmp_path / "model.gguf")
    assert isinstance(open_checkpoint(tmp_path / "model.gguf"), GgufCheckpoint)
    assert isinstance(open_checkpoint(tmp_path), GgufCheckpoint)  # nothing else in the folder
    (tmp_path / "second.gguf").write_bytes((tmp_path / "model.gguf").read_bytes())
    with pytest.raises(UnsupportedModel, match=r"model\.gguf, second\.gguf"):
        open_checkpoint(tmp_path)


def test_what_is_not_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="absent does not exist"):
        open_checkpoint(tmp_path / "absent")
    with pytest.raises(UnsupportedModel, match=r"no config\.json"):
        open_checkpoint(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UnsupportedModel, match=r"neither a folder nor a \.gguf file"):
        open_checkpoint(tmp_path / "notes.txt")
    (tmp_path / "model.gguf").write_text("x")
    with pytest.raises(CorruptModel, match=r"model\.gguf"):
        open_checkpoint(tmp_path / "model.gguf")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CorruptModel, match=r"no \.safetensors file"):
        open_checkpoint(tmp_path)


def test_a_file_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    """Blobs of a download cache have no suffix."""
    (tmp_path / "hf").mkdir()
    write_gguf(make_tiny(CASES[0], tmp_path / "hf"), tmp_path / "blob")
    assert isinstance(open_checkpoint(tmp_path / "blob"), GgufCheckpoint)
