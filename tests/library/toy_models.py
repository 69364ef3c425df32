"""Tiny checkpoints on disk, written by the formats' own libraries."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import save_file

LLAMA_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "max_position_embeddings": 2048,
    "vocab_size": 8,
}


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def write_checkpoint(folder: Path, config: dict[str, object] | None = None, *, template: bool = True) -> Path:
    """A safetensors folder with a tokenizer; 16 float32 weights."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", LLAMA_CONFIG | (config or {}))
    write_json(folder / "tokenizer.json", {"version": "1.0"})
    write_json(folder / "tokenizer_config.json", {"chat_template": "{{ messages }}"} if template else {})
    save_file({"model.embed_tokens.weight": np.ones((4, 4), np.float32)}, folder / "model.safetensors")
    return folder


def write_gguf(
    path: Path,
    architecture: str = "llama",
    *,
    template: bool = True,
    file_type: int = 3,
    rows: int = 4,
    general_type: str | None = None,
    pooling: bool = False,
) -> Path:
    """A GGUF file with one matrix, a vocabulary of strings and the usual scalars."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("toy")
    writer.add_context_length(4096)
    writer.add_file_type(file_type)
    writer.add_rope_freq_base(10000.0)
    writer.add_token_list(["a", "b", "ü"])
    writer.add_token_types([1, 1, 1])
    writer.add_add_bos_token(True)
    if general_type:
        writer.add_type(general_type)
    if pooling:
        writer.add_pooling_type(gguf.PoolingType.MEAN)
    if template:
        writer.add_chat_template("{{ messages }}")
    if rows:
        writer.add_tensor("token_embd.weight", np.ones((rows, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_snapshot(cache: Path, repo_id: str, commit: str, source: Path, *, main: bool = True) -> Path:
    """`source` as a snapshot of the hub cache: blobs, links and, with `main`, the ref."""
    repo = cache / ("models--" + repo_id.replace("/", "--"))
    snapshot = repo / "snapshots" / commit
    (repo / "blobs").mkdir(parents=True, exist_ok=True)
    for path in source.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            blob = repo / "blobs" / f"{abs(hash(content)):040x}"[:40]
            blob.write_bytes(content)
            link = snapshot / path.relative_to(source)
            link.parent.mkdir(parents=True, exist_ok=True)
            depth = len(link.relative_to(repo).parts) - 1
            link.symlink_to(Path(*[".."] * depth) / "blobs" / blob.name)
    if main:
        (repo / "refs").mkdir(exist_ok=True)
        (repo / "refs" / "main").write_text(commit)
    return snapshot
