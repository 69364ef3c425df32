from __future__ import annotations

import pytest

from stoker.library.quant_labels import is_side_file, label_bits, parse_gguf_name


@pytest.mark.parametrize(
    ("name", "stem", "label", "shard", "num_shards"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct.Q4_1", "Q4_1", 1, 1),
        ("gemma-3-270m-q4_k_m.gguf", "gemma-3-270m-q4_k_m", "Q4_K_M", 1, 1),
        ("Qwen3-0.6B-Q8_0.gguf", "Qwen3-0.6B-Q8_0", "Q8_0", 1, 1),
        ("Llama-3-IQ2_XXS.gguf", "Llama-3-IQ2_XXS", "IQ2_XXS", 1, 1),
        ("big-UD-Q4_K_XL.gguf", "big-UD-Q4_K_XL", "UD-Q4_K_XL", 1, 1),
        ("Q5_K_M/big-Q5_K_M-00002-of-00003.gguf", "big-Q5_K_M", "Q5_K_M", 2, 3),
        ("Q6_K/big-00001-of-00002.gguf", "big", "Q6_K", 1, 2),
        ("model-fp16.gguf", "model-fp16", "F16", 1, 1),
        ("model.BF16.gguf", "model.BF16", "BF16", 1, 1),
        ("gpt-oss-20b-mxfp4.gguf", "gpt-oss-20b-mxfp4", "MXFP4", 1, 1),
        ("ggml-model.gguf", "ggml-model", None, 1, 1),
        ("Q4ever.gguf", "Q4ever", None, 1, 1),
    ],
)
def test_names_in_use(name: str, stem: str, label: str | None, shard: int, num_shards: int) -> None:
    parsed = parse_gguf_name(name)
    assert (parsed.stem, parsed.label, parsed.shard, parsed.num_shards) == (stem, label, shard, num_shards)


@pytest.mark.parametrize(
    ("label", "bits"),
    [
        ("Q4_K_M", 4),
        ("Q8_0", 8),
        ("IQ2_XXS", 2),
        ("UD-Q3_K_XL", 3),
        ("TQ1_0", 1),
        ("MXFP4", 4),
        ("F16", None),
    ],
)
def test_nominal_bits(label: str, bits: int | None) -> None:
    assert label_bits(label) == bits


def test_side_files() -> None:
    assert is_side_file("mmproj-model-f16.gguf")
    assert is_side_file("sub/model.imatrix.gguf")
    assert not is_side_file("model-Q4_K_M.gguf")
