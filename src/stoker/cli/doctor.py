"""`stoker doctor`: what this machine has, what stoker would use, and what is wrong."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from stoker import __version__
from stoker.cli.options import with_settings
from stoker.config import PREFIXES, SETTINGS, Settings

if TYPE_CHECKING:
    from stoker.library import ModelEntry

MIN_FREE_DISK = 5 * 10**9
INTERESTING_FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
ARM_FEATURES = ("asimd", "asimddp", "i8mm", "bf16", "sve")

Check = tuple[str, bool, str]  # what, whether it is well, what was found


@with_settings("host", "port", "device", "dtype", "threads")
def run(settings: Settings) -> None:
    """Report what this machine has and what stoker would use.

    \b
      stoker doctor
      stoker doctor --port 9000

    Ends with exit code 1 when something would keep `stoker serve` from working.
    """
    checks: list[Check] = []
    for part in (_python, _torch, _cpu, _kernels, _memory, _models, _port):
        checks += _guarded(part, settings)
    width = max(len(what) for what, _, _ in checks)
    for what, well, found in checks:
        print(f"{'ok ' if well else 'BAD'}  {what.ljust(width)}  {found}")
    print("\nSettings in force")
    for name, setting in SETTINGS.items():
        value = getattr(settings, name)
        shown = "(set)" if setting.secret and value else value
        source = settings.sources[name]
        if source != "default":
            print(f"     {name} = {shown}  from {source}")
    if all(source == "default" for source in settings.sources.values()):
        print("     all at their defaults")
    if ignored := ignored_variables(os.environ.keys()):
        print(f"     not a setting, ignored: {', '.join(ignored)}")
    if not all(well for _, well, _ in checks):
        raise typer.Exit(1)


def ignored_variables(names: object) -> list[str]:
    """Environment variables with our prefix that no setting reads."""
    known = {setting.env for setting in SETTINGS.values()} | {"CONFIG"}
    assert hasattr(names, "__iter__")
    return sorted(
        name
        for name in names
        for prefix in PREFIXES
        if name.startswith(prefix) and name[len(prefix) :] not in known
    )


def _guarded(part: Callable[[Settings], list[Check]], settings: Settings) -> list[Check]:
    """A part that cannot even be looked at is a finding, not a crash."""
    try:
        return part(settings)
    except Exception as error:
        return [(part.__name__.removeprefix("_"), False, f"{type(error).__name__}: {error}")]


def _python(settings: Settings) -> list[Check]:
    found = f"{platform.python_version()} at {sys.executable}"
    return [
        ("stoker", True, f"{__version__} at {Path(__file__).parent.parent}"),
        ("python", sys.version_info >= (3, 11), found),
        ("system", True, f"{platform.system()} {platform.release()} {platform.machine()}"),
    ]


def _torch(settings: Settings) -> list[Check]:
    import importlib.metadata

    import torch

    from stoker.app import choose_device, choose_threads
    from stoker.numerics import choose_numerics

    device = choose_device(settings.device)
    name = torch.cuda.get_device_name() if device == "cuda" else ""
    threads = choose_threads(settings.threads)
    libraries = ", ".join(
        f"{library} {importlib.metadata.version(library)}"
        for library in ("tokenizers", "safetensors", "gguf")
    )
    return [
        ("torch", True, f"{torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"),
        ("device", True, f"{device} {name}".rstrip()),
        ("number format", True, f"{choose_numerics(settings.dtype, device)} (dtype {settings.dtype})"),
        ("threads", True, str(threads)),
        ("libraries", True, libraries),
    ]


def _cpu(settings: Settings) -> list[Check]:
    from stoker import machine

    present = machine.cpu_features()
    shown = [feature for feature in INTERESTING_FEATURES + ARM_FEATURES if feature in present]
    return [
        ("cpu", True, f"{machine.cpu_name()}, {machine.physical_cores()} usable cores"),
        ("cpu features", True, ", ".join(shown) or "not listed by this system"),
    ]


def _kernels(settings: Settings) -> list[Check]:
    from stoker import kernels

    describe = getattr(kernels, "describe", None)
    return [("kernels", True, describe() if describe is not None else "torch")]


def _memory(settings: Settings) -> list[Check]:
    from stoker import machine
    from stoker.library.entry import human_size
    from stoker.library.paths import hub_cache_dir, store_dir

    total, available = machine.total_memory(), machine.available_memory()
    checks: list[Check] = [("memory", True, f"{human_size(available)} of {human_size(total)} available")]
    for what, folder in (("store", store_dir()), ("hub cache", hub_cache_dir())):
        free = shutil.disk_usage(_nearest_existing(folder)).free
        short = "" if free >= MIN_FREE_DISK else ": too little for most models"
        checks.append((what, free >= MIN_FREE_DISK, f"{folder} ({human_size(free)} free{short})"))
        if not _is_writable(folder):
            checks.append((what, False, f"{folder} cannot be written to"))
    return checks


def _models(settings: Settings) -> list[Check]:
    from stoker import machine
    from stoker.cli.choose import STARTER_MODEL, choose_model
    from stoker.errors import ModelError
    from stoker.library import find_model, list_models

    models = list_models()
    if settings.model:
        try:
            return [("model", True, find_model(settings.model, kinds=("chat", "text")).id)]
        except ModelError as error:
            return [("model", False, error.message)]
    chat: list[ModelEntry] = [model for model in models if model.kind == "chat"]
    chosen = choose_model(chat, machine.usable_memory())
    return [
        ("models", True, f"{len(models)} on this machine, {len(chat)} for chat"),
        ("automatic choice", True, chosen.id if chosen else f"{STARTER_MODEL} (would be downloaded)"),
    ]


def _port(settings: Settings) -> list[Check]:
    from stoker.server import bind

    where = f"{settings.host}:{settings.port}"
    try:
        bind(settings.host, settings.port).close()
    except OSError as error:
        return [("port", False, f"{where}: {error.strerror or error}")]
    return [("port", True, f"{where} is free")]


def _is_writable(folder: Path) -> bool:
    existing = _nearest_existing(folder)
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)


def _nearest_existing(folder: Path) -> Path:
    return next(parent for parent in (folder, *folder.parents) if parent.exists())
