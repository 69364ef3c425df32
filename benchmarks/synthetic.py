"""Random 4-bit Llama checkpoints in the shape of larger models: `python benchmarks/synthetic.py 1b OUT.gguf`.

For speed only, where memory bandwidth decides; what they write is noise. The tokenizer is copied from the
starter model, so that both servers can load the file.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that it also runs as a plain script

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter


@dataclass(frozen=True, slots=True)
class Shape:
    hidden: int
    layers: int
    intermediate: int
    heads: int
    kv_heads: int

    @property
    def head_dim(self) -> int:
        return self.hidden // self.heads


SHAPES = {
    "tiny": Shape(hidden=128, layers=2, intermediate=256, heads=4, kv_heads=2),  # for trying this out
    "1b": Shape(hidden=2048, layers=16, intermediate=8192, heads=32, kv_heads=8),  # Llama 3.2 1B
    "3b": Shape(hidden=3072, layers=28, intermediate=8192, heads=24, kv_heads=8),  # Llama 3.2 3B
}

_GROUP = 32  # values in a Q4_1 block: fp16 scale, fp16 minimum, 16 bytes of nibbles
_BLOCK_BYTES = 20
_STD = 0.02


def write(shape: Shape, tokenizer_from: Path, out: Path, seed: int = 0) -> None:
    """A GGUF file with Q4_1 matrices, tied embeddings and unit norms. Raises OSError."""
    rng = np.random.default_rng(seed)
    donor = GGUFReader(tokenizer_from)
    writer = GGUFWriter(out, "llama")
    writer.add_name("synthetic")
    writer.add_block_count(shape.layers)
    writer.add_context_length(8192)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.intermediate)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(500_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    vocab = _copy_tokenizer(donor, writer)
    writer.add_vocab_size(vocab)

    def matrix(name: str, rows: int, columns: int) -> None:
        blocks = _random_q4_1(rng, rows, columns)
        writer.add_tensor(name, blocks, raw_dtype=GGMLQuantizationType.Q4_1)

    def norm(name: str) -> None:
        writer.add_tensor(name, np.ones(shape.hidden, dtype=np.float32))

    matrix("token_embd.weight", vocab, shape.hidden)
    norm("output_norm.weight")
    for i in range(shape.layers):
        norm(f"blk.{i}.attn_norm.weight")
        matrix(f"blk.{i}.attn_q.weight", shape.hidden, shape.hidden)
        matrix(f"blk.{i}.attn_k.weight", shape.kv_heads * shape.head_dim, shape.hidden)
        matrix(f"blk.{i}.attn_v.weight", shape.kv_heads * shape.head_dim, shape.hidden)
        matrix(f"blk.{i}.attn_output.weight", shape.hidden, shape.hidden)
        norm(f"blk.{i}.ffn_norm.weight")
        matrix(f"blk.{i}.ffn_gate.weight", shape.intermediate, shape.hidden)
        matrix(f"blk.{i}.ffn_up.weight", shape.intermediate, shape.hidden)
        matrix(f"blk.{i}.ffn_down.weight", shape.hidden, shape.intermediate)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _random_q4_1(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """uint8 [rows, bytes per row]. Uniform codes 0..15 centred on zero have a standard deviation of 4.6
    scales."""
    scale = np.float16(_STD / 4.6)
    blocks = np.empty((rows, columns // _GROUP, _BLOCK_BYTES), dtype=np.uint8)
    blocks[..., :4] = np.array([scale, np.float16(-7.5) * scale], dtype=np.float16).view(np.uint8)
    blocks[..., 4:] = rng.integers(0, 256, size=(rows, columns // _GROUP, 16), dtype=np.uint8)
    return blocks.reshape(rows, -1)


def _copy_tokenizer(donor: GGUFReader, writer: GGUFWriter) -> int:
    """Every tokenizer.* entry as it is. Returns the vocabulary size."""
    for key, entry in donor.fields.items():
        if not key.startswith("tokenizer."):
            continue
        kind = entry.types[0]
        element = entry.types[-1] if kind is GGUFValueType.ARRAY else None
        writer.add_key_value(key, entry.contents(), kind, element)
    return len(donor.fields["tokenizer.ggml.tokens"].data)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="synthetic.py", description=__doc__)
    parser.add_argument("shape", choices=tuple(SHAPES))
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer-from", type=Path, help="a .gguf file (default: the starter model)")
    args = parser.parse_args(argv)
    from benchmarks.compare import default_model

    donor = args.tokenizer_from or default_model()
    if donor is None:
        print("give --tokenizer-from FILE.gguf, or run `make setup` first", file=sys.stderr)
        return 1
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write(SHAPES[args.shape], donor, args.out)
    print(f"{args.out}: {args.out.stat().st_size / 2**20:.0f} MiB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
