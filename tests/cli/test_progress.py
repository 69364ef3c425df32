"""How a download is shown where nothing can be redrawn."""

from __future__ import annotations

import pytest

from stoker.cli import progress
from stoker.cli.progress import Bar, Lines
from stoker.library.progress import DownloadState, FileProgress


def state(received: int, stage: str = "downloading") -> DownloadState:
    return DownloadState("org/repo", stage, (FileProgress("a", received, 2_000_000),), 0.0)


def test_lines_come_at_the_start_now_and_then_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    clock = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with Lines() as lines:
        for second in range(12):
            clock[0] = 100.0 + second
            lines.update(state(second * 100_000))
        lines.update(state(2_000_000))
        lines.update(state(2_000_000))
        lines.update(state(2_000_000, "unpacking"))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "org/repo: downloading 0 B of 2.0 MB",
        "org/repo: downloading 500.0 kB of 2.0 MB",
        "org/repo: downloading 1.0 MB of 2.0 MB",
        "org/repo: downloading 2.0 MB of 2.0 MB",
        "org/repo: unpacking 2.0 MB of 2.0 MB",
    ]


def test_the_bar_goes_to_stderr_and_keeps_notes_as_they_are(capsys: pytest.CaptureFixture[str]):
    with Bar() as bar:
        bar.update(state(1_000_000))
        bar.note("[retry] 1/3")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "org/repo downloading" in captured.err
    assert "[retry] 1/3" in captured.err
