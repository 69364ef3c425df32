"""Shared by `transcribe` and `dictate`: an engine in this process, and a progress line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from stoker.config import Settings

if TYPE_CHECKING:
    from stoker.speech.service import SpeechService


def local_service(settings: Settings, model: str | None, idle_unload_s: float | None = None) -> SpeechService:
    """A service without a server. `idle_unload_s`: how long weights stay after a take; None = for the whole
    command."""
    import dataclasses

    import torch

    from stoker.app import choose_device, choose_threads
    from stoker.kernels import native
    from stoker.transcription import speech_service

    device, threads = choose_device(settings.device), choose_threads(settings.threads)
    if device == "cpu" and native.library() is not None:
        native.set_num_threads(threads)
        torch.set_num_threads(1)  # the model asks for more where they pay
    settings = dataclasses.replace(
        settings,
        whisper_model=model or settings.whisper_model,
        whisper_resident=idle_unload_s is None,
        whisper_idle_unload=idle_unload_s or 0.0,
    )
    return speech_service(settings, device=device, threads=threads)


class Meter:
    """A progress bar on a terminal; nothing elsewhere."""

    def __init__(self, title: str, *, quiet: bool) -> None:
        self._bar = None
        if sys.stderr.isatty() and not quiet:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(title, total=None)

    def __enter__(self) -> Meter:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, total: int) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total)
