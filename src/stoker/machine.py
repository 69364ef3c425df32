"""What this machine is: cores, CPU features, memory, and the device and number format that suit it.

Facts only, no torch. Container limits (cgroup version 2) count as the machine's own.
"""

from __future__ import annotations

import math
import os
import platform
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import psutil

_COPY_BYTES = 64 * 2**20  # larger than any cache
_CGROUP = Path("/sys/fs/cgroup")


def physical_cores(cgroup: Path = _CGROUP) -> int:
    """Cores this process may use: physical ones, within its affinity mask and CPU quota."""
    usable = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        usable = min(usable, len(os.sched_getaffinity(0)))
    quota = _words(cgroup / "cpu.max")  # "max 100000" or "<microseconds> <period>"
    if len(quota) == 2 and quota[0] != "max":
        usable = min(usable, math.ceil(int(quota[0]) / int(quota[1])))
    return max(1, usable)


def total_memory(cgroup: Path = _CGROUP) -> int:
    """Bytes of memory this process could ever have."""
    limit = _words(cgroup / "memory.max")
    total = int(psutil.virtual_memory().total)
    return min(total, int(limit[0])) if limit and limit[0] != "max" else total


def available_memory(cgroup: Path = _CGROUP) -> int:
    """Bytes that can be allocated now without swapping."""
    available = int(psutil.virtual_memory().available)
    limit, current = _words(cgroup / "memory.max"), _words(cgroup / "memory.current")
    if limit and current and limit[0] != "max":
        available = min(available, int(limit[0]) - int(current[0]))
    return max(0, available)


def usable_memory(cgroup: Path = _CGROUP) -> int:
    """Bytes a model may take on the CPU: three quarters of the memory."""
    return total_memory(cgroup) * 3 // 4


@cache
def memory_bandwidth_gbs() -> float:
    """Bytes a second that copying moves (read and written), in units of 10^9, by all threads. Measured
    once, in about a tenth of a second; other programs' load lowers it."""
    import numpy as np  # late: the command line asks for other facts, and should answer at once

    source = np.ones(_COPY_BYTES, dtype=np.uint8)
    parts = np.array_split(np.empty_like(source), physical_cores())
    offsets = np.cumsum([0, *map(len, parts)])
    fastest_s = float("inf")
    with ThreadPoolExecutor(len(parts)) as threads:
        for _ in range(4):  # the first one also makes the pages resident
            began = time.perf_counter()
            # Copying releases the interpreter's lock.
            list(threads.map(lambda at, part: np.copyto(part, source[at : at + len(part)]), offsets, parts))
            fastest_s = min(fastest_s, time.perf_counter() - began)
    return 2 * _COPY_BYTES / fastest_s / 1e9


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    return _cpuinfo_line(cpuinfo, "model name") or platform.processor() or platform.machine()


def cpu_features(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Instruction sets by the kernel's names (avx2, avx512_bf16, amx_bf16, asimd ...); empty where
    the system does not list them."""
    line = _cpuinfo_line(cpuinfo, "flags") or _cpuinfo_line(cpuinfo, "Features")
    return frozenset(line.split())


def multiplies_bfloat16(features: frozenset[str]) -> bool:
    """Whether the CPU has bfloat16 products; without them float32 is faster."""
    return bool(features & {"avx512_bf16", "amx_bf16"})


def _cpuinfo_line(path: Path, key: str) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []
