"""Torch's import is most of a server's start. Two ways to wait less for it.

Its native libraries, a fifth of the import, are mapped on a thread while the interpreter goes on: the
dynamic linker holds the interpreter's lock only when Python calls it, so it is called as a foreign
function. Whatever fails here fails again, with its message, in the import.

And what only tracing and exporting need, a quarter of the import, is imported once the server runs.
Of all that stoker uses, only `torch.Generator` asks for it: `complete_torch` comes before one.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

_LIBRARY = {"linux": "libtorch_python.so", "darwin": "libtorch_python.dylib"}
_FOR_TRACING = ("torch._meta_registrations", "torch.export")
_KNOWN_TO_WORK = ("2.13.",)  # other versions are imported whole

_lock = threading.Lock()


def preload_torch() -> None:
    """Begins to map torch's libraries, where the platform has `dlopen`; returns at once."""
    # Torch's own threads would spin after their work on cores that the native kernels use.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    name, folder = _LIBRARY.get(sys.platform), _torch_folder()
    if name and folder:
        library = folder / "lib" / name
        threading.Thread(target=_open, args=(library,), name="preload torch", daemon=True).start()


def import_torch_for_serving() -> None:
    """Imports torch without its tracing. Whoever calls this calls `complete_torch` soon after."""
    folder = _torch_folder()
    if "torch" in sys.modules or folder is None or not _version(folder).startswith(_KNOWN_TO_WORK):
        return
    for name in _FOR_TRACING:
        sys.modules[name] = ModuleType(name)
    try:
        importlib.import_module("torch")
    finally:
        for name in _FOR_TRACING:
            del sys.modules[name]


def complete_torch() -> None:
    """Returns when torch is whole. From any thread; costs nothing when it is."""
    with _lock:
        for name in _FOR_TRACING:
            importlib.import_module(name)


def _torch_folder() -> Path | None:
    spec = find_spec("torch")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _version(folder: Path) -> str:
    """Read from its file: the package's metadata takes longer to find."""
    text = (folder / "version.py").read_text()
    return text.partition("__version__ = ")[2].partition("\n")[0].strip("'\"")


def _open(library: Path) -> None:
    dlopen = ctypes.CDLL(None).dlopen
    dlopen.argtypes, dlopen.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    dlopen(os.fsencode(library), os.RTLD_NOW)
