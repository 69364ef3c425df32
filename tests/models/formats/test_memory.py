"""Loading takes little more memory than the loaded model: at most 1.3 times its size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import save_file

from .test_gguf_quants import random_blocks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")

# Prints the final size, and how far memory rose above what was in use before.
_LOAD = """
import sys
import torch
from stoker.models.formats import open_checkpoint

def field(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))

checkpoint = open_checkpoint(sys.argv[1])
small = [checkpoint.get(name) for name in checkpoint.names() if "norm" in name]  # loads code
before = field("VmRSS")
kept, highest = [], before
for name in checkpoint.names():
    weight = checkpoint.get(name)
    kept.append(weight.float() if isinstance(weight, torch.Tensor) else weight)
    del weight
print(sum(weight.nbytes for weight in kept), max(field("VmRSS"), field("VmHWM")) - before)
"""


def _load(path: Path) -> tuple[int, int]:
    done = subprocess.run(
        [sys.executable, "-c", _LOAD, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env={"OMP_NUM_THREADS": "1", "PATH": ""},
    )
    final, risen = done.stdout.split()
    return int(final), int(risen)


@pytest.mark.parametrize("kind", ["Q4_1", "Q6_K"])
def test_gguf(kind: str, tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    for key in ("context_length", "embedding_length", "block_count", "feed_forward_length"):
        writer.add_uint32(f"llama.{key}", 1024)
    writer.add_uint32("llama.attention.head_count", 16)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_tensor("output_norm.weight", np.ones(1024, np.float32))
    # One large matrix, as embeddings are, and several smaller ones, one of them reordered.
    for name, rows in {
        "token_embd": 49152,
        "output": 16384,
        "blk.0.attn_q": 4096,
        "blk.0.attn_v": 4096,
    }.items():
        raw = np.tile(random_blocks(kind, 64, 1024), (rows // 64, 1))
        writer.add_tensor(f"{name}.weight", raw, raw_dtype=Kind[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    final, risen = _load(tmp_path / "model.gguf")
    assert final > 30_000_000
    assert risen <= 1.3 * final


def test_safetensors_converted_to_float32(tmp_path: Path) -> None:
    tensors = {f"{index}.weight": torch.full((2048, 2048), 0.5, dtype=torch.bfloat16) for index in range(6)}
    save_file(tensors | {"norm.weight": torch.ones(4)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    final, risen = _load(tmp_path)
    assert final > 90_000_000
    assert risen <= 1.3 * final
