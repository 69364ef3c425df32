"""Which sequences share a forward pass. Decides from lengths alone; no torch.

Sequences are sorted by length, so that a pass has few different ones (packing.py), and a pass has
so many tokens that one layer takes about a hundredth of a second: long enough for efficient
products, short enough to stop between two layers and let a chat's step run.
"""

from __future__ import annotations

from collections.abc import Sequence

LAYER_FLOPS = 1.0e9  # of one layer in one pass
MIN_TOKENS, MAX_TOKENS = 64, 512


def pass_tokens(layer_parameters: int) -> int:
    """Tokens of one pass, for a layer with so many weights."""
    return max(MIN_TOKENS, min(MAX_TOKENS, int(LAYER_FLOPS / (2 * layer_parameters))))


def plan_passes(lengths: Sequence[int], layer_parameters: int) -> list[tuple[int, ...]]:
    """Indices into `lengths` for each pass. A sequence longer than a pass has one to itself."""
    limit = pass_tokens(layer_parameters)
    passes: list[tuple[int, ...]] = []
    group: list[int] = []
    num_tokens = 0
    for index in sorted(range(len(lengths)), key=lambda index: lengths[index]):
        if group and num_tokens + lengths[index] > limit:
            passes.append(tuple(group))
            group, num_tokens = [], 0
        group.append(index)
        num_tokens += lengths[index]
    if group:
        passes.append(tuple(group))
    return passes
