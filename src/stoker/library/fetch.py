"""Fetches several files of one download at once: all, or the first failure. One file: transfer.py."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path

from stoker.library.disk import require_space
from stoker.library.progress import Meter
from stoker.library.transfer import (
    Cancelled,
    Opener,
    RemoteFile,
    Transfer,
    TransferOptions,
    is_complete,
    partial_path,
    size_of,
)


def fetch_all(
    opener: Opener,
    files: list[tuple[RemoteFile, Path, Path]],
    meter: Meter,
    options: TransferOptions,
) -> None:
    """Fetches (file, target, lock) triples, several at once. Raises the first failure.

    Free space is checked for what is still missing before the first byte; after a failure the other
    transfers stop at their next chunk and keep what they have.
    """
    missing = [(file, target, lock) for file, target, lock in files if not is_complete(file, target, meter)]
    if not missing:
        return
    needed = sum(max(0, file.size_bytes - size_of(partial_path(target))) for file, target, _ in missing)
    require_space(missing[0][1].parent, needed, options.min_free_bytes)
    stop = threading.Event()
    largest_first = sorted(missing, key=lambda item: -item[0].size_bytes)
    with ThreadPoolExecutor(options.parallel, thread_name_prefix="download") as pool:
        transfers = [
            pool.submit(Transfer(opener, file, target, lock, meter, options, stop).run)
            for file, target, lock in largest_first
        ]
        try:
            wait(transfers, return_when=FIRST_EXCEPTION)
        finally:
            if not all(_succeeded(transfer) for transfer in transfers):
                stop.set()
                pool.shutdown(cancel_futures=True)
                meter.flush()
    errors = [error for transfer in transfers if not transfer.cancelled() and (error := transfer.exception())]
    for error in sorted(errors, key=lambda error: isinstance(error, Cancelled)):
        raise error


def _succeeded(transfer: Future[None]) -> bool:
    return transfer.done() and not transfer.cancelled() and transfer.exception() is None
