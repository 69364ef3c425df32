"""stoker's own model store: a folder per model with a manifest, appearing whole or not at all.

    <store>/<id>/stoker.json     manifest, written last
    <store>/<id>/<files>
    <store>/.staging/<id>/       a download under way; never listed, kept for resuming

Manifest: {"schema": 1, "id", "title", "kind", "license": {"name", "url", "accepted"}, "source": {...},
"files": {"<name>": {"size_bytes", "sha256"}}, "added_at": "<ISO date>"}
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stoker.errors import CorruptModel
from stoker.library.catalog import CatalogModel
from stoker.library.entry import ModelEntry, Origin
from stoker.library.inspect import MANIFEST_NAME, inspect_folder
from stoker.library.locks import file_lock
from stoker.library.paths import store_dir
from stoker.library.scan import check_manifest

_STAGING = ".staging"


@dataclass(frozen=True, slots=True)
class StoredFile:
    name: str
    size_bytes: int
    sha256: str


def stored_model(name: str) -> ModelEntry | None:
    """The complete model `name` of the store, or None."""
    folder = store_dir() / name
    try:
        check_manifest(folder)
    except (OSError, CorruptModel):
        return None
    found = inspect_folder(folder, Origin(name, "store"))
    return next((item for item in found if isinstance(item, ModelEntry)), None)


@contextmanager
def staging(name: str, on_wait: Callable[[str], None]) -> Iterator[Path]:
    """A folder to build the model `name` in; this process is alone in it. It stays when work fails."""
    root = store_dir() / _STAGING
    folder = root / name
    # The owner may spend a long time in pip or in hashing: only its end frees this lock.
    with file_lock(root / f"{name}.lock", on_wait=on_wait, stale_after_s=float("inf")):
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def publish(folder: Path, model: CatalogModel, source: dict[str, Any], files: list[StoredFile]) -> ModelEntry:
    """Writes the manifest into the staged `folder` and moves it to its place in the store.

    Raises CorruptModel when the files do not make up a model after all.
    """
    manifest = {
        "schema": 1,
        "id": model.id,
        "title": model.title,
        "kind": model.kind,
        "license": {
            "name": model.license.name,
            "url": model.license.url,
            "accepted": model.license.must_accept,
        },
        "source": source,
        "files": {file.name: {"size_bytes": file.size_bytes, "sha256": file.sha256} for file in files},
        "added_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    _remove_leftovers(folder, {file.name for file in files})
    if not any(isinstance(item, ModelEntry) for item in inspect_folder(folder, Origin(model.id, "store"))):
        shutil.rmtree(folder)
        raise CorruptModel(f"{model.id}: the downloaded files are not a usable model")
    (folder / MANIFEST_NAME).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    target = store_dir() / model.id
    if target.is_symlink() or target.exists():
        discard(target)
    os.replace(folder, target)
    entry = stored_model(model.id)
    assert entry is not None
    return entry


def _remove_leftovers(folder: Path, keep: set[str]) -> None:
    """What another source or an older version left in the staging folder."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(folder).as_posix() not in keep:
            path.unlink()


def discard(target: Path) -> None:
    """Removes a model of the store: out of sight in one step, then deleted."""
    if target.is_symlink() or target.is_file():
        target.unlink()
        return
    trash = store_dir() / _STAGING / f"trash-{os.getpid()}-{target.name}"
    trash.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(trash, ignore_errors=True)
    os.replace(target, trash)
    shutil.rmtree(trash)
