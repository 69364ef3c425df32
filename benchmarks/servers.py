"""Starting and stopping a server for a measurement, and what it cost in time and memory.

Each server is one child process on a free loopback port; only that process and its children are ended.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from benchmarks.load import Load, first_answer
from benchmarks.wire import Endpoint

_START_TIMEOUT_S = 120.0
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """How a server is started. `{port}` in the command is replaced by the port chosen."""

    name: str
    version: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    request_extra: Mapping[str, Any] = field(default_factory=dict)  # sent with every request
    hidden: Sequence[str] = ()  # parts of the command (paths) that a published result shows by base name

    def shown_command(self) -> str:
        return " ".join(Path(part).name if part in self.hidden else part for part in self.command)


class RunningServer:
    """A started server, as a context manager. `startup_s`: from process start to the first answered token."""

    def __init__(self, spec: ServerSpec, log: Path) -> None:
        self.spec = spec
        self.log = log
        self.startup_s = 0.0
        self.endpoint = Endpoint("127.0.0.1", _free_port())

    def __enter__(self) -> RunningServer:
        command = [part.replace("{port}", str(self.endpoint.port)) for part in self.spec.command]
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._log_file = self.log.open("wb")
        started_at = time.perf_counter()
        self._process = psutil.Popen(
            command,
            env={**os.environ, **self.spec.environment},
            stdin=subprocess.DEVNULL,
            stdout=self._log_file,
            stderr=subprocess.STDOUT,
        )
        try:
            asyncio.run(self._wait_for_answer(started_at))
        except BaseException:
            self.stop()
            raise
        self.startup_s = time.perf_counter() - started_at
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def load(self, **fields: Any) -> Load:
        return Load(endpoint=self.endpoint, extra=self.spec.request_extra, **fields)

    def peak_rss_bytes(self) -> int:
        """High-water mark of resident memory since the start, children included. Where the system keeps no
        such mark (not Linux), what is resident now."""
        return sum(_peak_rss(process) for process in self._tree())

    def stop(self) -> None:
        """SIGTERM to the server, SIGKILL to it and its children after ten seconds."""
        tree = self._tree()
        if self._process.poll() is None:
            self._process.terminate()
        _, alive = psutil.wait_procs(tree, timeout=10)
        for process in alive:
            process.kill()
        psutil.wait_procs(alive, timeout=10)
        self._log_file.close()

    def _tree(self) -> list[psutil.Process]:
        try:
            return [self._process, *self._process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return [self._process]

    async def _wait_for_answer(self, started_at: float) -> None:
        """Asks for one token until the server gives it; 503 while loading counts as not yet."""
        while True:
            try:
                await first_answer(self.load())
                return
            except OSError:  # ConnectionError is one
                if self._process.poll() is not None:
                    tail = self.log.read_text(errors="replace")[-1500:]
                    raise RuntimeError(f"{self.spec.name} ended while starting:\n{tail}") from None
                if time.perf_counter() - started_at > _START_TIMEOUT_S:
                    raise RuntimeError(f"{self.spec.name} gave no answer, see {self.log}") from None
                await asyncio.sleep(_POLL_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _peak_rss(process: psutil.Process) -> int:
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        pass
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
