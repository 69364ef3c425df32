"""A checkpoint held in memory, for tests that tamper with weights or configuration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.kernels.source import InMemory
from stoker.models.formats import open_checkpoint
from stoker.models.weights import MatrixSource, Weight, two_dimensions


@dataclass
class MemoryCheckpoint:
    config: dict[str, Any]
    weights: dict[str, Weight]

    @classmethod
    def open(cls, folder: Path) -> MemoryCheckpoint:
        checkpoint = open_checkpoint(folder)
        weights = {name: checkpoint.get(name) for name in checkpoint.names()}
        return cls(dict(checkpoint.config), weights)

    def names(self) -> Iterable[str]:
        return self.weights

    def __contains__(self, name: object) -> bool:
        return name in self.weights

    def get(self, name: str) -> Weight:
        return self.weights[name]

    def matrix(self, name: str) -> MatrixSource:
        weight = self.weights[name]
        two_dimensions(name, weight.shape)
        return InMemory(weight)
