"""The native kernel library: found, loaded and described through ctypes. No tensors here.

The library is plain C++ behind a C interface (kernels/native/), built when the package is
installed if a compiler is there. It is never required: `library()` is None without it.
ctypes releases the interpreter's lock during calls, so the HTTP side runs meanwhile.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import platform
from ctypes import c_float, c_int32, c_int64, c_void_p
from pathlib import Path

log = logging.getLogger(__name__)

INTERFACE = 4  # stoker_interface in team.cpp
F32, F16, BF16 = 0, 1, 2  # ScalarType in common.h


class QMatrix(ctypes.Structure):
    """A packed matrix; see native/qlinear.h."""

    _fields_ = (
        ("n", c_int64),
        ("k", c_int64),
        ("bits", c_int32),
        ("group", c_int32),
        ("scale_type", c_int32),
        ("padding", c_int32),
        ("data", c_void_p),
    )


class LayerCache(ctypes.Structure):
    """One layer's paged keys and values; see native/attention.h."""

    _fields_ = (
        ("keys", c_void_p),
        ("values", c_void_p),
        ("type", c_int32),
        ("num_kv_heads", c_int32),
        ("head_dim", c_int32),
        ("window", c_int32),
        ("scale", c_float),
        ("softcap", c_float),
    )


class StepRows(ctypes.Structure):
    """The rows of a step; see native/attention.h."""

    _fields_ = (
        ("count", c_int64),
        ("first", c_void_p),
        ("start", c_void_p),
        ("length", c_void_p),
        ("tables", c_void_p),
        ("table_width", c_int64),
    )


_SIGNATURES = {
    "stoker_team_new": ([c_int32], c_void_p),
    "stoker_team_free": ([c_void_p], None),
    "stoker_qlinear": ([c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_int32], None),
    "stoker_int16_pack": ([c_void_p, c_int64, c_int64, c_void_p, c_int32], None),
    "stoker_int16_linear": ([c_void_p] * 3 + [c_int64] + [c_void_p] * 2 + [c_int32, c_void_p], None),
    "stoker_encoder_attend": ([c_void_p, c_void_p], None),
    "stoker_qpack_dense": ([c_void_p, c_int64, c_int64, c_void_p, c_int32], c_int32),
    "stoker_qpack": ([c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p], None),
    "stoker_qrows": ([c_void_p, c_void_p, c_int64, c_void_p], None),
    "stoker_scratch_new": ([], c_void_p),
    "stoker_scratch_free": ([c_void_p], None),
    "stoker_decoder_step": ([c_void_p] * 4, None),
    "stoker_whisper_step": ([c_void_p] * 3, None),
    "stoker_likeliest": ([c_void_p] * 2 + [c_int64] * 2 + [c_int32] + [c_void_p] * 3, None),
    "stoker_whisper_append": ([c_void_p] * 4, None),
    "stoker_attend": ([c_void_p] * 3 + [c_int32] + [c_void_p] * 4, None),
}


@functools.cache
def library() -> ctypes.CDLL | None:
    """The best variant this CPU runs, or None. STOKER_KERNELS=torch|generic|avx2 overrides."""
    wanted = os.environ.get("STOKER_KERNELS")
    if wanted == "torch":
        return None
    for variant in [wanted] if wanted else _runnable_variants():
        for path in sorted(Path(__file__).parent.glob(f"_native_{variant}*.so")):
            try:
                loaded = ctypes.CDLL(str(path))
            except OSError:
                continue
            if getattr(loaded, "stoker_interface", lambda: 0)() != INTERFACE:
                log.warning("%s is of another version of stoker; reinstall to rebuild it", path)
                continue
            for name, (arguments, result) in _SIGNATURES.items():
                function = getattr(loaded, name)
                function.argtypes = arguments
                function.restype = result
            loaded.variant = variant  # type: ignore[attr-defined]
            return loaded
    return None


# Like torch's own thread count, a property of the process: two teams would fight for the cores.
_num_threads = 1


def set_num_threads(count: int) -> None:
    """Threads of all later calls. Give torch one thread then: its idle workers spin."""
    global _num_threads
    _num_threads = max(1, count)


def team() -> int:
    """The thread team that kernels run on; an opaque pointer."""
    return _team(_num_threads)


@functools.cache
def _team(num_threads: int) -> int:
    native = library()
    assert native is not None
    pointer: int = native.stoker_team_new(num_threads)
    return pointer


def describe() -> str:
    """Which kernels run, for `stoker doctor`."""
    native = library()
    if native is None:
        return "torch operators (no native kernels: no compiler at install time, or switched off)"
    return f"native {native.variant}"


def _runnable_variants() -> list[str]:
    if platform.machine().lower() in ("x86_64", "amd64"):
        flags = _x86_flags()
        if {"avx2", "fma", "f16c"} <= flags:
            return ["avx2", "generic"]
    return ["generic"]


def _x86_flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    for line in text.splitlines():
        if line.startswith("flags"):
            return set(line.split(":", 1)[1].split())
    return set()
