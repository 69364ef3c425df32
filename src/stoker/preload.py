"""Maps torch's native libraries on a thread, while the interpreter goes on importing.

`import torch` spends a fifth of its time in the dynamic linker and holds the interpreter's lock
all the while. The same libraries opened by a plain foreign call leave the lock free, and the
later import finds them mapped. It is only a head start: whatever fails here fails again, with
its message, in the import.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

_LIBRARY = {"linux": "libtorch_python.so", "darwin": "libtorch_python.dylib"}


def preload_torch() -> None:
    """Begins to load torch's libraries, where the platform has `dlopen`; returns at once."""
    # Torch's own threads would spin after their work on cores that the native kernels use.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    name = _LIBRARY.get(sys.platform)
    spec = find_spec("torch") if name else None
    if not name or spec is None or spec.origin is None:
        return
    library = Path(spec.origin).parent / "lib" / name
    threading.Thread(target=_open, args=(library,), name="preload torch", daemon=True).start()


def _open(library: Path) -> None:
    # `ctypes.CDLL(library)` would hold the lock; calling dlopen as a foreign function does not.
    dlopen = ctypes.CDLL(None).dlopen
    dlopen.argtypes, dlopen.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
    dlopen(os.fsencode(library), os.RTLD_NOW)
