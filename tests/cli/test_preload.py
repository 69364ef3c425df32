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


def test_the_server_is_imported_without_torch_and_the_web_framework() -> None:
    """It binds its port before either is loaded."""
    code = "import sys, stoker.server\nprint(*({'torch', 'fastapi', 'stoker.api'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


IN_TWO_PARTS = """
import sys
from stoker.preload import complete_torch, import_torch_for_serving
import_torch_for_serving()
import torch
assert "torch._meta_registrations" not in sys.modules and "torch.export" not in sys.modules
assert torch.nn.functional.softmax(torch.zeros(4), 0).sum().item() == 1.0
complete_torch()
complete_torch()
generator = torch.Generator().manual_seed(7)
drawn = torch.rand(2, generator=generator)
program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),))  # needs both parts
assert torch.empty(2, 3, device="meta").cumsum(0).shape == (2, 3)
print(drawn.tolist(), len(list(program.graph.nodes)))
"""

WHOLE = """
import torch
drawn = torch.rand(2, generator=torch.Generator().manual_seed(7))
program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),))
print(drawn.tolist(), len(list(program.graph.nodes)))
"""


def test_torch_in_two_parts_is_torch() -> None:
    parts, whole = (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        for code in (IN_TWO_PARTS, WHOLE)
    )
    assert parts.returncode == 0, parts.stderr
    assert parts.stdout == whole.stdout


def test_a_version_not_known_to_work_is_imported_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys\nfrom stoker import preload\npreload._KNOWN_TO_WORK = ('1.0',)\n"
    code += "preload.import_torch_for_serving()\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"  # left to the import that follows
