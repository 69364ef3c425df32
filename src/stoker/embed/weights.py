"""Reads an encoder's weights, checking names and shapes. Decoders have their own: models/reader.py."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from stoker.errors import CorruptModel
from stoker.kernels.affine import Affine, affine
from stoker.models.weights import Checkpoint, QuantizedTensor


class LayerNorm:
    """Layer normalization (Ba et al. 2016, arXiv:1607.06450) in float32."""

    __slots__ = ("bias", "eps", "weight")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, eps: float) -> None:
        self.weight = weight
        self.bias = bias
        self.eps = eps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class EncoderWeights:
    """All methods raise CorruptModel, naming the weight, when it is missing or misshapen."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        roots: Sequence[str],  # where the encoder's names may begin; the first that has `probe` is taken
        probe: str,
        *,
        dtype: torch.dtype = torch.float32,  # of matrices (kernels/affine.py); the rest stays float32
        device: torch.device | str = "cpu",
    ) -> None:
        self.checkpoint = checkpoint
        self.config = checkpoint.config
        self.dtype = dtype
        self.device = torch.device(device)
        self.nbytes = 0
        self.root = next((root for root in roots if f"{root}{probe}" in checkpoint), roots[0])

    def has(self, name: str) -> bool:
        return f"{self.root}{name}" in self.checkpoint

    def linear(self, name: str, rows: int, columns: int) -> Affine:
        """With its bias when there is one."""
        return self.fused([name], [rows], columns)

    def fused(self, names: Sequence[str], rows: Sequence[int], columns: int) -> Affine:
        """Several linear layers of one input as one, outputs concatenated."""
        parts = [self._get(f"{name}.weight", (size, columns)) for name, size in zip(names, rows, strict=True)]
        biases = [
            self._get(f"{name}.bias", (size,)) if self.has(f"{name}.bias") else None
            for name, size in zip(names, rows, strict=True)
        ]
        bias = None
        if any(part is not None for part in biases):
            filled = [
                torch.zeros(size, device=self.device) if part is None else part
                for part, size in zip(biases, rows, strict=True)
            ]
            bias = torch.cat(filled)
        made = affine(torch.cat(parts) if len(parts) > 1 else parts[0], bias, self.dtype)
        self.nbytes += made.nbytes
        return made

    def layer_norm(self, name: str, size: int, eps: float) -> LayerNorm:
        # TensorFlow's names survive in some older checkpoints.
        weight, bias = (
            ("gamma", "beta")
            if self.has(f"{name}.gamma") and not self.has(f"{name}.weight")
            else ("weight", "bias")
        )
        shift = self._get(f"{name}.{bias}", (size,)) if self.has(f"{name}.{bias}") else None
        return LayerNorm(self._get(f"{name}.{weight}", (size,)), shift, eps)

    def table(self, name: str, rows: int, columns: int) -> torch.Tensor:
        """An embedding table, float32 [rows, columns]."""
        table = self._get(f"{name}.weight", (rows, columns))
        self.nbytes += table.nbytes
        return table

    def _get(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        full_name = f"{self.root}{name}"
        if full_name not in self.checkpoint:
            raise CorruptModel(f"The model's files lack the weight {full_name}.")
        weight = self.checkpoint.get(full_name)
        if tuple(weight.shape) != shape:
            raise CorruptModel(
                f"The weight {full_name} has shape {list(weight.shape)}; "
                f"the model's configuration asks for {list(shape)}."
            )
        if isinstance(weight, QuantizedTensor):
            weight = weight.dequantize(torch.float32)
        # A copy: the file's pages are mapped, and may be dropped under a slow disk.
        return weight.to(self.device, torch.float32, copy=True)
