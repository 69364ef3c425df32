from __future__ import annotations

import pytest

from stoker.errors import ModelNotFound, UnsupportedModel
from stoker.library.selection import select_files


def select(*names: str, quant: str | None = None) -> set[str]:
    return set(select_files("org/x", dict.fromkeys(names, 1000), quant))


def test_checkpoint_without_duplicates_of_its_weights() -> None:
    chosen = select(
        "README.md", "LICENSE", ".gitattributes", "config.json", "generation_config.json", "tokenizer.json",
        "model.safetensors", "model.fp16.safetensors", "consolidated.safetensors", "pytorch_model.bin",
        "onnx/model.onnx", "original/params.json", "tf_model.h5",
    )  # fmt: skip
    assert chosen == {
        "LICENSE",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "model.safetensors",
    }


def test_sharded_checkpoint() -> None:
    index = "model.safetensors.index.json"
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert select("config.json", index, *shards, "consolidated-00001-of-00001.safetensors") == {
        "config.json",
        index,
        *shards,
    }


def test_unusual_weight_names_come_with_their_index() -> None:
    index = "model.safetensors.index.json"
    assert select("config.json", "weights.00.safetensors", index, "adapter_model.safetensors") == {
        "config.json",
        "weights.00.safetensors",
        index,
    }


def test_sentence_transformers_stages() -> None:
    stages = {"modules.json", "1_Pooling/config.json", "2_Dense/model.safetensors", "2_Dense/config.json"}
    chosen = select("config.json", "model.safetensors", "openvino/model.bin", *stages)
    assert chosen == {"config.json", "model.safetensors", *stages}


def test_mlx_whisper() -> None:
    assert select("README.md", "config.json", "weights.npz") == {"config.json", "weights.npz"}


def test_ctranslate2_whisper() -> None:
    names = {"config.json", "model.bin", "tokenizer.json", "vocabulary.txt"}
    assert select(*names) == names


def test_gguf_choice() -> None:
    offers = ("m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "m-IQ1_S.gguf", "mmproj-m-f16.gguf")
    assert select(*offers) == {"m-Q4_K_M.gguf"}
    assert select("m-Q8_0.gguf", "m-F16.gguf") == {"m-Q8_0.gguf"}
    assert select(*offers, quant="q2_k") == {"m-Q2_K.gguf"}
    assert select(*offers, quant="m-Q8_0.gguf") == {"m-Q8_0.gguf"}
    assert select(*offers, "model.safetensors", "config.json") == {"model.safetensors", "config.json"}
    assert select(*offers, "model.safetensors", quant="Q8_0") == {"m-Q8_0.gguf"}


def test_all_parts_of_a_split_gguf() -> None:
    parts = {f"Q8_0/m-Q8_0-{n:05d}-of-00003.gguf" for n in (1, 2, 3)}
    assert select("m-Q4_K_M.gguf", *parts, quant="Q8_0") == parts


def test_the_error_offers_what_there_is() -> None:
    with pytest.raises(ModelNotFound, match=r"org/x has no Q6_K; choose one of Q2_K \(1\.0 kB\), Q8_0"):
        select("m-Q2_K.gguf", "m-Q8_0.gguf", quant="Q6_K")
    with pytest.raises(ModelNotFound, match="several models in q8_0; choose one of a-Q8_0"):
        select("a-Q8_0.gguf", "b-Q8_0.gguf", quant="q8_0")
    with pytest.raises(ModelNotFound, match="no GGUF files"):
        select("model.safetensors", quant="Q8_0")
    with pytest.raises(UnsupportedModel, match="bin, json"):
        select("config.json", "pytorch_model.bin")
