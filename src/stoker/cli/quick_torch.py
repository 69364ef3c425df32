"""Imports torch without the part that only its compiler uses: a third of the time the import takes.

Importing torch ends with `torch._meta_registrations`, which declares shape rules of some thousand
operators for tracing (torch.compile, meta tensors). The commands that load a model trace nothing.
"""

from __future__ import annotations

import sys
from types import ModuleType

_TRACING_RULES = "torch._meta_registrations"


def import_torch() -> None:
    """Does nothing when torch is there already. Whoever needs the rules after all imports the module
    itself, as torch's own tracing code does."""
    if "torch" in sys.modules:
        return
    sys.modules[_TRACING_RULES] = ModuleType(_TRACING_RULES)
    try:
        import torch
    finally:
        del sys.modules[_TRACING_RULES]
    vars(torch).pop("_meta_registrations", None)
