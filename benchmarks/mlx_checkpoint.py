"""A GGUF as a checkpoint for mlx_lm, value for value: `python benchmarks/mlx_checkpoint.py MODEL.gguf OUT`.

Its groups of 32 with scale and minimum are what MLX calls affine quantization, and codes lie in the same
order, so both servers read the same weights. Formats with groups of 16 have no counterpart there.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that it also runs as a plain script

from stoker.kernels.quantized import QuantizedTensor
from stoker.models.formats import open_checkpoint


def write_mlx_checkpoint(model: Path, out: Path) -> None:
    """Raises ValueError for groups that MLX does not know."""
    checkpoint = open_checkpoint(model)
    tensors: dict[str, torch.Tensor] = {}
    quantization: dict[str, Any] = {"group_size": 32, "bits": 4, "mode": "affine"}
    for name in checkpoint.names():
        weight = checkpoint.get(name)
        if not isinstance(weight, QuantizedTensor):
            tensors[name] = weight.to(torch.float16)
            continue
        if weight.group_size not in (32, 64, 128):
            raise ValueError(f"{name} has groups of {weight.group_size}")
        module = name.removesuffix(".weight")
        tensors[name] = weight.codes.contiguous().view(torch.uint32)
        tensors[f"{module}.scales"] = weight.scales.to(torch.float16)
        tensors[f"{module}.biases"] = weight.biases.to(torch.float16)
        quantization[module] = {"group_size": weight.group_size, "bits": weight.bits}
    out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, out / "model.safetensors", metadata={"format": "mlx"})
    config = {**checkpoint.config, "quantization": quantization, "quantization_config": quantization}
    (out / "config.json").write_text(json.dumps(config))
    tokenizer, tokenizer_config = checkpoint.tokenizer()
    tokenizer.save(str(out / "tokenizer.json"))
    (out / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    write_mlx_checkpoint(args.model, args.out)
