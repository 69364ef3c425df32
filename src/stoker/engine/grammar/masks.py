"""Masks of several rows in one call, on several cores and without the interpreter's lock.

A mask costs between ten microseconds (inside JSON) and half a millisecond (anywhere in free text), so one
task, one lock and one wake-up per row would cost more than many of the masks themselves.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
from llguidance import LLExecutor

from stoker.engine.grammar.matcher import RowMatcher


class MaskMaker:
    """Belongs to the engine's thread.

    `begin`, before the model runs, starts the masks that will probably be needed; they are computed
    meanwhile, which costs less than between two steps even where the model uses every core. `finish`
    computes what turned out to be missing.
    """

    @cached_property
    def _cores(self) -> LLExecutor:
        return LLExecutor(num_threads=max(1, min(8, os.cpu_count() or 1)))

    @cached_property
    def _helper(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(max_workers=1, thread_name_prefix="stoker-mask")

    def begin(self, rows: Sequence[RowMatcher]) -> None:
        """For rows that needed a mask the last time."""
        missing = [row for row in rows if row.needed_mask and row.lacks_mask]
        if missing:
            task = self._helper.submit(self._compute, missing)
            for row in missing:
                row.pending = task

    def finish(self, rows: Sequence[RowMatcher]) -> None:
        """Every row has its mask when this returns."""
        missing = [row for row in rows if row.lacks_mask]
        if len(missing) > 1:
            self._compute(missing)
        # `RowMatcher.mask` computes a single one, without waking other threads.

    def _compute(self, rows: Sequence[RowMatcher]) -> None:
        """Each row is told its mask, or that its grammar failed; one row's failure is its own."""
        num_bytes = rows[0].mask_bytes
        masks = np.empty((len(rows), num_bytes // 4), dtype=np.uint32)
        matchers = [(row.matcher, index) for index, row in enumerate(rows)]
        self._cores.unsafe_compute_mask_ptr(matchers, masks.ctypes.data, num_bytes, len(rows))
        for row, mask in zip(rows, masks, strict=True):
            row.set_mask(mask)
