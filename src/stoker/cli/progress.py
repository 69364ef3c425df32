"""Shows a download: a bar on a terminal, a line now and then elsewhere. Always on stderr."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stoker.cli.output import note
from stoker.library.entry import ModelEntry, human_size

if TYPE_CHECKING:
    from stoker.library.progress import DownloadState

LINE_INTERVAL_S = 5.0


def download(name: str, **options: Any) -> ModelEntry:
    """`get_model` with its progress shown. Ctrl-C leaves what arrived, for a later attempt to resume."""
    from stoker.library.download import get_model

    with Bar() if sys.stderr.isatty() else Lines() as progress:
        return get_model(name, progress=progress, **options)


class Lines:
    """One line at the start, every few seconds, and at the end of each stage."""

    def __init__(self) -> None:
        self._last = (float("-inf"), "")  # when, and what was being done
        self._complete = ""

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, state: DownloadState) -> None:
        now, doing = time.monotonic(), f"{state.title}: {state.stage}"
        complete = state.received_bytes >= state.total_bytes
        due = self._last[1] != doing or now - self._last[0] >= LINE_INTERVAL_S
        if not due and (not complete or self._complete == doing):
            return
        self._last = (now, doing)
        if complete:
            self._complete = doing
        note(f"{doing} {_amounts(state)}")

    def note(self, message: str) -> None:
        note(message)


class Bar:
    """A progress bar that redraws itself."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self._task = self._progress.add_task("", total=None, rate="", visible=False)
        self._lock = threading.Lock()

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def update(self, state: DownloadState) -> None:
        files = f", {state.files_done}/{len(state.files)} files" if len(state.files) > 1 else ""
        with self._lock:
            self._progress.update(
                self._task,
                description=f"{state.title} {state.stage}{files}",
                completed=state.received_bytes,
                total=state.total_bytes,
                rate=f"{human_size(state.bytes_per_sec)}/s" if state.bytes_per_sec else "",
                visible=True,
            )

    def note(self, message: str) -> None:
        self._progress.console.print(message, markup=False, highlight=False)


def _amounts(state: DownloadState) -> str:
    rate = f", {human_size(state.bytes_per_sec)}/s" if state.bytes_per_sec else ""
    return f"{human_size(state.received_bytes)} of {human_size(state.total_bytes)}{rate}"
