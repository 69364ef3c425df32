"""Fills packed matrices from their sources in the background, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from stoker.kernels.linear import PackedLinear
from stoker.kernels.packed import TILE
from stoker.kernels.quantized import ScaleOverflow
from stoker.kernels.source import MatrixSource

# Small enough for a block to be little beside the model; not smaller, because a page fault brings in
# the pages around it, and those at a block's edges come back after they were released.
_BLOCK_ELEMENTS = 1024 * 1024


class Filler:
    """`add` matrices, then `finish`. Most of the work happens outside the interpreter's lock, so the
    caller can go on building the model meanwhile. Leaving the context gives up what is not done."""

    def __init__(self, num_threads: int) -> None:
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix="load")
        self._pending: list[tuple[PackedLinear, MatrixSource, list[Future[None]]]] = []

    def __enter__(self) -> Filler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def add(self, packed: PackedLinear, source: MatrixSource) -> None:
        """`packed` may be used once `finish` has returned."""
        copies = [self._pool.submit(_copy, packed, source, *rows) for rows in blocks(source)]
        self._pending.append((packed, source, copies))

    def finish(self) -> None:
        """Waits for everything added. Raises what a source raised."""
        pending, self._pending = self._pending, []
        for packed, source, copies in pending:
            overflows = [isinstance(error, ScaleOverflow) for copy in copies if (error := copy.exception())]
            if any(overflows):
                packed.widen_scales()
                for rows in blocks(source):
                    _copy(packed, source, *rows)
            else:
                for copy in copies:
                    copy.result()


def blocks(source: MatrixSource) -> Iterator[tuple[int, int]]:
    """First rows of pieces of it, and the rows behind their last ones."""
    rows, columns = source.shape
    step = max(TILE, _BLOCK_ELEMENTS // max(1, columns) // TILE * TILE)
    for first in range(0, rows, step):
        yield first, min(first + step, rows)


def _copy(packed: PackedLinear, source: MatrixSource, first: int, last: int) -> None:
    packed.store(first, source.read(first, last))
    source.release(first, last)
