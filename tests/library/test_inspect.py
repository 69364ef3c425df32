from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from stoker.library.entry import Found, ModelEntry, Origin, Unusable
from stoker.library.inspect import inspect_folder, inspect_gguf

from .toy_models import LLAMA_CONFIG, write_checkpoint, write_gguf, write_json


def inspect(folder: Path) -> list[Found]:
    return inspect_folder(folder, Origin("toy", "path"))


def entry(folder: Path) -> ModelEntry:
    [item] = inspect(folder)
    assert isinstance(item, ModelEntry), item
    return item


def reason(folder: Path) -> str:
    [item] = inspect(folder)
    assert isinstance(item, Unusable), item
    return item.reason


def test_safetensors_checkpoint(tmp_path: Path) -> None:
    found = entry(write_checkpoint(tmp_path))
    assert (found.format, found.kind, found.architecture) == ("safetensors", "chat", "llama")
    assert (found.context_length, found.quant_bits, found.vision, found.audio) == (2048, None, False, False)
    assert found.size_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, "text"),
        ({"architectures": ["BertModel"], "model_type": "bert"}, "embedding"),
        ({"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper"}, "speech"),
        ({"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True}, "other"),
        ({"architectures": ["BertForMaskedLM"]}, "other"),
        ({"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}}, "rerank"),
        ({"architectures": ["BertForSequenceClassification"], "id2label": {"0": "a", "1": "b"}}, "other"),
        ({"architectures": ["BertForSequenceClassification"]}, "other"),
        ({"architectures": ["CLIPModel"], "vision_config": {}}, "other"),
        ({"architectures": None}, "text"),
    ],
)
def test_kinds(tmp_path: Path, config: dict[str, object], kind: str) -> None:
    assert entry(write_checkpoint(tmp_path, config, template=False)).kind == kind


@pytest.mark.parametrize("name", ["chat_template.jinja", "chat_template.json"])
def test_template_in_its_own_file_makes_it_a_chat_model(tmp_path: Path, name: str) -> None:
    write_checkpoint(tmp_path, template=False)
    (tmp_path / name).write_text("{}")
    assert entry(tmp_path).kind == "chat"


def test_embedding_pipeline_around_a_language_model(tmp_path: Path) -> None:
    write_json(write_checkpoint(tmp_path) / "modules.json", [])
    assert entry(tmp_path).kind == "embedding"


def test_a_language_model_that_ranks_is_known_by_its_name(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    [found] = inspect_folder(tmp_path, Origin("Qwen/Qwen3-Reranker-0.6B", "hub"))
    assert isinstance(found, ModelEntry)
    assert found.kind == "rerank"


def test_mlx_and_other_quantizations(tmp_path: Path) -> None:
    mlx = entry(write_checkpoint(tmp_path / "mlx", {"quantization": {"bits": 4, "group_size": 64}}))
    assert (mlx.format, mlx.quant_bits, mlx.quant_group_size) == ("mlx", 4, 64)
    gptq = entry(write_checkpoint(tmp_path / "gptq", {"quantization_config": {"bits": 8, "group_size": 128}}))
    assert (gptq.format, gptq.quant_bits, gptq.quant_group_size) == ("safetensors", 8, 128)


def test_towers(tmp_path: Path) -> None:
    config = {"vision_config": {}, "audio_config": {}, "text_config": {"max_position_embeddings": 77}}
    found = entry(write_checkpoint(tmp_path, config))
    assert (found.vision, found.audio, found.context_length) == (True, False, 77)
    save_file({"audio_tower.weight": np.ones(2, np.float32)}, tmp_path / "model.safetensors")
    assert entry(tmp_path).audio  # declared, and its weights are there


def test_shards_must_all_be_there(tmp_path: Path) -> None:
    write_checkpoint(tmp_path)
    first = (tmp_path / "model.safetensors").rename(tmp_path / "model-00001-of-00002.safetensors")
    second = "model-00002-of-00002.safetensors"
    write_json(tmp_path / "model.safetensors.index.json", {"weight_map": {"a": first.name, "b": second}})
    assert reason(tmp_path) == f"1 of 2 weight files are missing, first {second}"
    save_file({"b": np.ones(2, np.float32)}, tmp_path / second)
    assert entry(tmp_path).weights == (first, tmp_path / second)


def test_cut_weights_are_noticed(tmp_path: Path) -> None:
    weights = write_checkpoint(tmp_path) / "model.safetensors"
    content = weights.read_bytes()
    for length in (0, 7, 20, len(content) - 1):
        weights.write_bytes(content[:length])
        assert "cut short" in reason(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe", b"", b'"x"', b"[" * 100_000])
def test_damaged_config(tmp_path: Path, content: bytes) -> None:
    (write_checkpoint(tmp_path) / "config.json").write_bytes(content)
    assert "config.json" in reason(tmp_path)


@pytest.mark.parametrize(
    "header", [b"{", b"[]", b'{"a":1}', b'{"a":{"data_offsets":[0]}}', b'{"a":{"data_offsets":"xy"}}']
)
def test_damaged_safetensors_header(tmp_path: Path, header: bytes) -> None:
    weights = write_checkpoint(tmp_path) / "model.safetensors"
    weights.write_bytes(len(header).to_bytes(8, "little") + header)
    assert "model.safetensors" in reason(tmp_path)


@pytest.mark.parametrize(
    "index", [b"{}", b'{"weight_map": []}', b'{"weight_map": {"a": "../x"}}', b"nonsense"]
)
def test_damaged_index(tmp_path: Path, index: bytes) -> None:
    (write_checkpoint(tmp_path) / "model.safetensors.index.json").write_bytes(index)
    assert "model.safetensors.index.json" in reason(tmp_path)


def test_weights_in_a_format_we_do_not_read(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", LLAMA_CONFIG)
    assert "no weights" in reason(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    assert "PyTorch .bin" in reason(tmp_path)


def test_gguf_file(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "toy-Q4_1.gguf")
    found = entry(tmp_path)
    assert (found.id, found.path, found.format, found.kind) == ("toy", path, "gguf", "chat")
    assert (found.architecture, found.quant_bits, found.quant_label) == ("llama", 4, "Q4_1")
    assert (found.context_length, found.size_bytes) == (4096, path.stat().st_size)


def test_gguf_label_comes_from_the_metadata_when_the_name_has_none(tmp_path: Path) -> None:
    write_gguf(tmp_path / "toy.gguf", file_type=15, template=False)
    found = entry(tmp_path)
    assert (found.quant_label, found.quant_bits, found.kind) == ("Q4_K_M", 4, "text")


def test_gguf_kinds_and_side_files(tmp_path: Path) -> None:
    assert entry(write_gguf(tmp_path / "a" / "e.gguf", "bert").parent).kind == "embedding"
    assert entry(write_gguf(tmp_path / "b" / "e.gguf", "qwen3", pooling=True).parent).kind == "embedding"
    assert inspect(write_gguf(tmp_path / "c" / "mmproj-x.gguf").parent) == []
    assert inspect(write_gguf(tmp_path / "d" / "x.gguf", "clip").parent) == []
    assert inspect(write_gguf(tmp_path / "e" / "lora.gguf", general_type="adapter").parent) == []
    assert inspect(write_gguf(tmp_path / "f" / "vocab.gguf", rows=0).parent) == []


def test_several_ggufs_are_told_apart(tmp_path: Path) -> None:
    for name in ("a-Q4_0.gguf", "a-Q8_0.gguf", "b-Q8_0.gguf"):
        write_gguf(tmp_path / name)
    assert [item.id for item in inspect(tmp_path)] == ["toy:Q4_0", "toy:a-Q8_0", "toy:b-Q8_0"]


def test_one_damaged_gguf_does_not_hide_the_others(tmp_path: Path) -> None:
    write_gguf(tmp_path / "good-Q8_0.gguf")
    (tmp_path / "bad-Q4_0.gguf").write_bytes(b"GGUF" + b"\0" * 100)
    bad, good = inspect(tmp_path)
    assert isinstance(bad, Unusable)
    assert isinstance(good, ModelEntry)


def test_split_gguf_needs_all_parts(tmp_path: Path) -> None:
    first = write_gguf(tmp_path / "big-Q8_0-00001-of-00002.gguf")
    assert reason(tmp_path) == "1 of 2 parts are missing, first big-Q8_0-00002-of-00002.gguf"
    second = write_gguf(tmp_path / "big-Q8_0-00002-of-00002.gguf")
    assert entry(tmp_path).weights == (first, second)


def test_ctranslate2_whisper(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"lang_ids": []})
    # u32 version 6, then a string with a u16 length that counts its final NUL
    (tmp_path / "model.bin").write_bytes(b"\6\0\0\0" + b"\x0c\0WhisperSpec\0" + b"\3\0\0\0")
    found = entry(tmp_path)
    assert (found.format, found.kind, found.architecture) == ("ctranslate2", "speech", "whisper")


def test_mlx_whisper_brings_no_tokenizer(tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"model_type": "whisper", "n_mels": 80})
    np.savez(tmp_path / "weights.npz", x=np.zeros(3))
    [found] = inspect_folder(tmp_path, Origin("mlx-community/whisper-tiny", "hub"))
    assert isinstance(found, ModelEntry)
    assert (found.format, found.kind, found.weights) == ("mlx", "speech", (tmp_path / "weights.npz",))


def test_gguf_directly(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "x.gguf")
    [found] = inspect_gguf(path, Origin("x", "path"), "x")
    assert found.id == "x"


def test_nothing_that_looks_like_a_model(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text(json.dumps({}))
    assert inspect(tmp_path) == []
