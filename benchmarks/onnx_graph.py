"""The onnxruntime side of embeddings.py: a BERT folder's model as an ONNX graph, weights in float32.

    python benchmarks/onnx_graph.py FOLDER OUT.onnx

Needs onnx and onnxscript, which stoker does not.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import transformers


def main() -> None:
    folder, out = map(Path, sys.argv[1:])
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").float().eval()
    ids, mask = torch.ones(2, 9, dtype=torch.long), torch.ones(2, 9, dtype=torch.long)  # never one tensor
    names = ["input_ids", "attention_mask", "token_type_ids"]
    sizes = {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens", min=2, max=512)}
    torch.onnx.export(
        model,
        kwargs={"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)},
        f=out,
        input_names=names,
        output_names=["last_hidden_state"],
        dynamic_shapes=dict.fromkeys(names, sizes),
        dynamo=True,
        external_data=False,
    )


if __name__ == "__main__":
    main()
