"""Loading a model takes little more memory than the loaded model: at most 1.3 times its size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import save_file
from tests.models.formats.test_gguf_quants import random_blocks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")

HIDDEN, FEED, VOCABULARY, LAYERS = 1024, 2816, 98304, 6

# Prints the final size, and how far memory rose above what was in use before.
_LOAD = """
import json, sys, torch
from stoker.kernels.linear import pack
from stoker.models import load_model, supported_architectures
from stoker.models.formats import open_checkpoint

def field(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))

folder, options = sys.argv[1], json.loads(sys.argv[2])
torch.set_num_threads(2)
checkpoint = open_checkpoint(folder)
supported_architectures()  # imports the families
first = next(name for name in checkpoint.names() if name.endswith("k_proj.weight"))
pack(checkpoint.matrix(first).read(0, 64), torch.float32)  # brings the code into memory
before = field("VmRSS")
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")  # VmHWM counts from here
model = load_model(checkpoint, **options)
print(model.nbytes, field("VmHWM") - before)
"""


def _load(path: Path, **options: object) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-c", _LOAD, str(path), json.dumps(options)],
        capture_output=True,
        text=True,
        check=True,
    )
    final, risen = done.stdout.split()
    return int(final), int(risen)


def _matrices() -> dict[str, tuple[int, int]]:
    """GGUF names and shapes."""
    shapes = {"token_embd": (VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        for name, shape in {
            "attn_q": (HIDDEN, HIDDEN),
            "attn_k": (HIDDEN // 4, HIDDEN),
            "attn_v": (HIDDEN // 4, HIDDEN),
            "attn_output": (HIDDEN, HIDDEN),
            "ffn_gate": (FEED, HIDDEN),
            "ffn_up": (FEED, HIDDEN),
            "ffn_down": (HIDDEN, FEED),
        }.items():
            shapes[f"blk.{layer}.{name}"] = shape
    return shapes


@pytest.mark.parametrize("kind", ["Q4_1", "Q6_K"])
def test_gguf(kind: str, tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    for key, value in {
        "context_length": 1024,
        "embedding_length": HIDDEN,
        "block_count": LAYERS,
        "feed_forward_length": FEED,
        "attention.head_count": 16,
        "attention.head_count_kv": 4,
    }.items():
        writer.add_uint32(f"llama.{key}", value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    norms = [f"blk.{layer}.{name}_norm" for layer in range(LAYERS) for name in ("attn", "ffn")]
    for name in ["output_norm", *norms]:
        writer.add_tensor(f"{name}.weight", np.ones(HIDDEN, np.float32))
    for name, (rows, columns) in _matrices().items():
        raw = np.tile(random_blocks(kind, 64, columns), (rows // 64, 1))
        writer.add_tensor(f"{name}.weight", raw, raw_dtype=Kind[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    final, risen = _load(tmp_path / "model.gguf", int8_planes=1)
    assert final > 90_000_000
    assert risen <= 1.3 * final


@pytest.mark.parametrize("bits", [None, 4])
def test_safetensors(bits: int | None, tmp_path: Path) -> None:
    names = {
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    tensors = {"model.norm.weight": torch.ones(HIDDEN)}
    for layer in range(LAYERS):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{norm}.weight"] = torch.ones(HIDDEN)
    for name, shape in _matrices().items():
        _, _, rest = name.partition(".")
        layer, _, leaf = rest.partition(".")
        full = f"model.layers.{layer}.{names[leaf]}" if leaf else "model.embed_tokens"
        tensors[f"{full}.weight"] = torch.full(shape, 0.5, dtype=torch.bfloat16)
    save_file(tensors, tmp_path / "model.safetensors")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": HIDDEN,
        "intermediate_size": FEED,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "vocab_size": VOCABULARY,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": 1024,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    final, risen = _load(tmp_path, quantize=bits)
    assert final > 90_000_000
    assert risen <= 1.3 * final
