"""stoker.machine: container limits and CPU features, read from files as Linux writes them."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from stoker import machine


@pytest.fixture
def cgroup(tmp_path: Path):
    def write(**files: str) -> Path:
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text + "\n")
        return tmp_path

    return write


def test_cores_stay_within_the_quota(cgroup, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 16 if not logical else 32)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(32)), raising=False)
    assert machine.physical_cores(cgroup()) == 16
    assert machine.physical_cores(cgroup(cpu_max="max 100000")) == 16
    assert machine.physical_cores(cgroup(cpu_max="250000 100000")) == 3
    assert machine.physical_cores(cgroup(cpu_max="10000 100000")) == 1
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 4}, raising=False)
    assert machine.physical_cores(cgroup(cpu_max="max 100000")) == 2


def test_memory_stays_within_the_limit(cgroup):
    total = psutil.virtual_memory().total
    assert machine.total_memory(cgroup()) == total
    assert machine.total_memory(cgroup(memory_max="max")) == total
    limited = cgroup(memory_max="1000000", memory_current="400000")
    assert machine.total_memory(limited) == 1_000_000
    assert machine.usable_memory(limited) == 750_000
    assert machine.available_memory(limited) == 600_000
    assert machine.available_memory(cgroup(memory_current="1500000")) == 0


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("flags\t\t: fpu avx2 avx512_bf16", True),
        ("flags\t\t: fpu avx2 amx_bf16 amx_tile", True),
        ("flags\t\t: fpu avx2 avx512f avx512_vnni", False),
        ("Features\t: fp asimd bf16", False),
        ("nothing here", False),
    ],
)
def test_bfloat16_needs_the_instructions(tmp_path: Path, line: str, expected: bool):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nmodel name\t: Test CPU @ 2: fast\n{line}\n")
    assert machine.multiplies_bfloat16(machine.cpu_features(cpuinfo)) is expected
    assert machine.cpu_name(cpuinfo) == "Test CPU @ 2: fast"


def test_a_system_without_cpuinfo(tmp_path: Path):
    assert machine.cpu_features(tmp_path / "absent") == frozenset()
    assert machine.cpu_name(tmp_path / "absent")


def test_memory_bandwidth_is_measured_once():
    machine.memory_bandwidth_gbs.cache_clear()
    measured = machine.memory_bandwidth_gbs()
    assert measured > 0.01
    assert machine.memory_bandwidth_gbs() == measured
