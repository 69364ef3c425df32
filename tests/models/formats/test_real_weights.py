"""The starter models' files: every tensor, the configuration, and tokens as llama.cpp counts them."""

from __future__ import annotations

import time
from pathlib import Path

import gguf
import pytest
import torch

from stoker.models.formats import open_checkpoint
from stoker.models.formats.gguf_file import read_gguf
from stoker.models.weights import QuantizedTensor

pytestmark = pytest.mark.real_weights

# What llama.cpp's server answers at /tokenize (add_special, parse_special) for the same file.
SMOLLM2_TOKENS = {
    "Hello, world!": [19556, 28, 905, 17],
    "The year is 2024; it's 3.14.": [
        504, 713, 314, 216, 34, 32, 34, 36, 43, 357, 506, 216, 35, 30, 33, 36, 30],
    "def f(x):\n    return x ** 2\n": [1604, 275, 24, 104, 727, 472, 1003, 1792, 1903, 216, 34, 198],
    "Naïve café — “quotes” … 😀👩\u200d👩\u200d👧": [
        26062, 46494, 37366, 1841, 619, 385, 2346, 573, 5548, 40303, 218, 10813,
        235, 119, 321, 231, 10813, 235, 119, 321, 231, 10813, 235, 117],
    "日本語と中文": [23274, 115, 40993, 179, 120, 248, 7365, 118, 28589, 29184],
    "العربية हिन्दी ไทย": [
        22208, 34966, 20602, 31462, 23339, 43463, 12335, 134, 27011, 30658, 16525, 44757, 37189, 216, 31933,
        222, 10283, 241, 10283, 112],
    "  two  spaces\t\ttabs\r\n\r\n": [216, 827, 216, 5600, 197, 197, 100, 7366, 18682],
    "<|im_start|>user\nHi<|im_end|>\n": [1, 4093, 198, 26843, 2, 198],
    "e\u0301 vs é": [85, 151, 219, 6375, 26411],
    "": [],
}  # fmt: skip
GEMMA3_TOKENS = {
    "Hello, world!": [2, 9259, 236764, 1902, 236888],
    "The year is 2024; it's 3.14.": [
        2, 818, 1051, 563, 236743, 236778, 236771, 236778, 236812, 236793, 625, 236789, 236751, 236743,
        236800, 236761, 236770, 236812, 236761],
    "def f(x):\n    return x ** 2\n": [
        2, 2063, 517, 236769, 236781, 1473, 107, 140, 2060, 1123, 5213, 236743, 236778, 107],
    "Naïve café — “quotes” … 😀👩\u200d👩\u200d👧": [
        2, 7199, 238527, 560, 33443, 2192, 999, 52231, 236919, 7881, 163543, 243767, 237243, 243767, 237243,
        244814],
    "日本語と中文": [2, 94951, 237032, 55041],
    "العربية हिन्दी ไทย": [2, 56734, 175899, 85394, 127604],
    "  two  spaces\t\ttabs\r\n\r\n": [2, 138, 13498, 138, 35220, 255969, 39218, 251, 107, 251, 107],
    "<start_of_turn>user\nHi<end_of_turn>\n": [2, 105, 2364, 107, 10979, 106, 107],
    "e\u0301 vs é": [2, 236744, 238288, 7728, 1559],
    "": [2],
}  # fmt: skip


def test_smollm2_tokens(smollm2_path: Path) -> None:
    tokenizer, config = open_checkpoint(smollm2_path).tokenizer()
    for text, expected in SMOLLM2_TOKENS.items():
        assert tokenizer.encode(text).ids == expected, text
        assert tokenizer.decode(expected, skip_special_tokens=False) == text
    assert config["bos_token"] == "<|im_start|>"
    assert config["eos_token"] == "<|im_end|>"
    assert config["add_bos_token"] is False
    assert "<|im_start|>" in config["chat_template"]


def test_smollm2_weights(smollm2_path: Path) -> None:
    """Every tensor: dequantized by the gguf package, with the rows of Q and K put back in order."""
    checkpoint = open_checkpoint(smollm2_path)
    # gguf's own reader takes seconds for this file; test_gguf_file.py compares the two readers.
    file = read_gguf(smollm2_path)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 30)
    seen = set()
    for name in checkpoint.names():
        stored = names.get_name(name, try_suffixes=(".weight",))
        info = file.tensors[stored]
        raw = file.mapped.bytes[info.offset : info.offset + info.nbytes].reshape(*info.shape[:-1], -1)
        expected = torch.from_numpy(gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[info.kind]))
        heads = {"q_proj": 9, "k_proj": 3}.get(name.split(".")[-2])
        if heads is not None:
            neighbours = expected.reshape(heads, 32, 2, 576)
            expected = torch.cat((neighbours[:, :, 0], neighbours[:, :, 1]), dim=1).reshape(heads * 64, 576)
        weight = checkpoint.get(name)
        if isinstance(weight, QuantizedTensor):
            assert weight.scales.dtype == torch.float16
            weight = weight.dequantize()
        assert torch.equal(weight, expected), name
        seen.add(stored)
    assert seen == set(file.tensors)


def test_smollm2_config(smollm2_path: Path) -> None:
    """As in the config.json of HuggingFaceTB/SmolLM2-135M-Instruct."""
    checkpoint = open_checkpoint(smollm2_path)
    wanted = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 576,
        "intermediate_size": 1536,
        "max_position_embeddings": 8192,
        "num_attention_heads": 9,
        "num_hidden_layers": 30,
        "num_key_value_heads": 3,
        "rms_norm_eps": 1e-05,
        "rope_scaling": None,
        "rope_theta": 100000,
        "tie_word_embeddings": True,
        "vocab_size": 49152,
    }
    assert {key: checkpoint.config[key] for key in wanted} == wanted
    assert checkpoint.generation_config["eos_token_id"][0] == 2


def test_smollm2_is_ready_soon(smollm2_path: Path) -> None:
    """Three seconds from process start are the whole budget; this part must be a small one.
    Processor time, so that a busy machine does not fail the test."""
    started = time.process_time()
    checkpoint = open_checkpoint(smollm2_path)
    opened = time.process_time()
    checkpoint.tokenizer()
    tokenized = time.process_time()
    for name in checkpoint.names():
        checkpoint.get(name)
    converted = time.process_time()
    assert opened - started < 0.4
    assert tokenized - opened < 0.8
    assert converted - tokenized < 1.0


def test_gemma3_tokens(gemma3_path: Path) -> None:
    tokenizer, config = open_checkpoint(gemma3_path).tokenizer()
    for text, expected in GEMMA3_TOKENS.items():
        assert tokenizer.encode(text).ids == expected, text
    assert config["bos_token"] == "<bos>"
    assert config["add_bos_token"] is True


def test_gemma3_config(gemma3_path: Path) -> None:
    """As in the config.json of google/gemma-3-270m."""
    config = open_checkpoint(gemma3_path).config
    wanted = {
        "architectures": ["Gemma3ForCausalLM"],
        "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 640,
        "intermediate_size": 2048,
        "max_position_embeddings": 32768,
        "num_attention_heads": 4,
        "num_hidden_layers": 18,
        "num_key_value_heads": 1,
        "query_pre_attn_scalar": 256,
        "rms_norm_eps": 1e-06,
        "rope_local_base_freq": 10000.0,
        "rope_theta": 1000000.0,
        "sliding_window": 512,
        "vocab_size": 262144,
    }
    assert {key: config[key] for key in wanted} == wanted
    assert [index for index, kind in enumerate(config["layer_types"]) if kind == "full_attention"] == [
        5,
        11,
        17,
    ]
