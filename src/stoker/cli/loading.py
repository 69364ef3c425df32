"""From settings to a loaded model, with what the person at the terminal should see meanwhile."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stoker.cli.choose import find_or_choose, loading_line
from stoker.cli.output import note
from stoker.config import Settings

if TYPE_CHECKING:
    from stoker.app import Served


@contextlib.contextmanager
def quick_start() -> Iterator[None]:
    """For loading a model: nothing made meanwhile is garbage, so looking for some only takes time, a tenth
    of it. Modules and model stay for good, so later collections do not visit them either."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def loaded(
    settings: Settings, wanted: str | None, *, verbose: bool = False, rows: int = 1
) -> Iterator[Served]:
    """The model `wanted` (None: the automatic choice), loaded; closed at the end."""
    started = time.perf_counter()
    entry = find_or_choose(wanted)
    if sys.stderr.isatty() or verbose:
        note(loading_line(entry))
    # Without a server there are no other requests to keep room for.
    settings = dataclasses.replace(settings, batch=rows)

    with quick_start():
        from stoker.app import load_served_model

        served = load_served_model(settings, entry)
    if verbose:
        dtype = str(served.numerics)
        note(f"Ready in {time.perf_counter() - started:.2f} s on {served.device}, {dtype}.")
    try:
        yield served
    finally:
        served.close()
