"""What a result must carry to be compared later: the machine, the versions and how busy the machine was."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_INSTRUCTION_SETS = (
    "avx2",
    "f16c",
    "avx_vnni",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_int8",
    "asimd",
    "sve",
)
_PACKAGES = ("stoker", "torch", "transformers", "numpy", "tokenizers", "gguf")


def machine() -> dict[str, Any]:
    """Processor, cores, memory, system, versions, and the load average of the last minute."""
    cpu = _cpuinfo()
    flags = set((cpu.get("flags") or cpu.get("Features") or "").split())
    return {
        "cpu": cpu.get("model name") or platform.processor() or platform.machine(),
        "cpu_family_model": f"{cpu.get('cpu family', '?')}/{cpu.get('model', '?')}",
        "instruction_sets": [name for name in _INSTRUCTION_SETS if name in flags],
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "load_1min": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def busy_note(facts: dict[str, Any]) -> str | None:
    """A warning when something else has been running. Servers whose threads wait for each other by spinning
    lose far more than their share of a busy machine, so that not even ratios hold then."""
    load = facts["load_1min"]
    if load is None or load <= 0.3 * facts["cores"]:
        return None
    return f"warning: the machine is busy (load {load} on {facts['cores']} cores); the figures will mislead"


def _cpuinfo() -> dict[str, str]:
    """The first processor's block of /proc/cpuinfo; empty where there is none."""
    try:
        block = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in block.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
