"""Common accelerators for the table in GET /fit: memory and its bandwidth, from their data sheets."""

from __future__ import annotations

from dataclasses import dataclass

USABLE_SHARE = 0.9  # of an accelerator's memory; the rest is the driver's and fragmentation


@dataclass(frozen=True, slots=True)
class Accelerator:
    name: str
    ram_gb: int
    bandwidth_gbs: float


ACCELERATORS = (
    Accelerator("GeForce RTX 4060", 8, 272),
    Accelerator("GeForce RTX 3060", 12, 360),
    Accelerator("GeForce RTX 4080", 16, 717),
    Accelerator("GeForce RTX 4090", 24, 1008),
    Accelerator("GeForce RTX 5090", 32, 1792),
    Accelerator("RTX A6000", 48, 768),
    Accelerator("A100 80GB SXM", 80, 2039),
    Accelerator("H100 SXM", 80, 3350),
    Accelerator("H200", 141, 4800),
    Accelerator("Instinct MI300X", 192, 5300),
)
