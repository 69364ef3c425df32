"""The checkpoint that mlx_lm is given holds the GGUF's own values, by another reader."""

from pathlib import Path

import pytest
import torch
from benchmarks.mlx_checkpoint import write_mlx_checkpoint

from stoker.kernels.quantized import as_dense
from stoker.models.formats import open_checkpoint
from stoker.models.formats.mlx import MlxCheckpoint


@pytest.mark.real_weights
def test_same_weights(smollm2_path: Path, tmp_path: Path) -> None:
    write_mlx_checkpoint(smollm2_path, tmp_path)
    there, here = open_checkpoint(tmp_path), open_checkpoint(smollm2_path)
    assert isinstance(there, MlxCheckpoint)
    assert set(there.names()) == set(here.names())
    for name in ("model.embed_tokens.weight", "model.layers.3.self_attn.k_proj.weight", "model.norm.weight"):
        ours, theirs = as_dense(here.get(name)).float(), as_dense(there.get(name)).float()
        # Norms are float32 in the GGUF and become float16.
        torch.testing.assert_close(theirs, ours, rtol=1e-3 if "norm" in name else 0, atol=0)
