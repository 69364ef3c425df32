"""A store, a config folder and models of the tests' own; nothing of this machine is read or written."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.running import Server
from tests.cli.tiny import make_tiny_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny-chat")


@pytest.fixture(scope="session")
def tiny_base_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny-base", chat=False)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty machine: no models, no settings. Returns the store's parent."""
    for name in list(os.environ):
        if name.startswith(("STOKER_", "MLX_BUN_", "HF_", "HUGGING")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path / "cache" / "stoker"


Run = Callable[..., tuple[int, str, str]]


@contextlib.contextmanager
def _fresh_logging() -> Iterator[None]:
    """As a process begins: what other tests and libraries made of the root logger is put aside."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    root.handlers, root.level = [], logging.WARNING
    try:
        yield
    finally:
        root.handlers, root.level = before


@pytest.fixture
def stoker(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the program in this process: (exit code, stdout, stderr)."""
    from stoker.cli import main

    def run(*arguments: str) -> tuple[int, str, str]:
        with _fresh_logging(), pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def spawn() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the program as a process of its own, which is ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **options: object) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(
            [sys.executable, "-m", "stoker", *arguments],
            **{**pipes, "text": True, **options},  # type: ignore[call-overload]
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def serve(spawn: Callable[..., subprocess.Popen[str]], tiny_model: Path) -> Callable[..., Server]:
    def start(*arguments: str) -> Server:
        process = spawn("serve", str(tiny_model), "--port", "0", *arguments, stdout=subprocess.DEVNULL)
        return Server(process)

    return start
