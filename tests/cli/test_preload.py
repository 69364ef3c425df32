"""The head start of torch's libraries must neither be lost nor matter."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stoker import preload

MAPPED = """
import sys, threading
from stoker.preload import preload_torch
preload_torch()
for thread in threading.enumerate():
    if thread.name == "preload torch":
        thread.join()
assert "torch" not in sys.modules
print("libtorch_cpu" in open("/proc/self/maps").read())
import torch
print(torch.ones(2).sum().item())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_libraries_are_mapped_before_torch_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", MAPPED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "2.0"]


def test_without_torch_or_dlopen_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload, "find_spec", lambda name: None)
    preload.preload_torch()
    monkeypatch.setattr(preload.sys, "platform", "win32")
    preload.preload_torch()


def test_a_verb_imports_no_other_verb_and_no_torch() -> None:
    code = "import sys\nfrom stoker.cli import main\ntry: main(['ls', '--help'])\nexcept SystemExit: pass\n"
    code += "print(*(m for m in sys.modules if m == 'torch' or m.startswith('stoker.cli.')), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stderr.split()
    assert "stoker.cli.ls" in loaded
    assert not {"torch", "stoker.cli.serve", "stoker.cli.chat", "stoker.cli.dictate"} & set(loaded)
