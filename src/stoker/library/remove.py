"""Takes a model off the disk: its files in the store, or its links and unshared blobs in the hub cache."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import ModelError, ModelNotFound
from stoker.library.entry import ModelEntry
from stoker.library.locks import is_locked
from stoker.library.paths import hub_cache_dir, lock_folder, repo_folder, store_dir
from stoker.library.quant_labels import is_side_file
from stoker.library.scan import scan_hub_cache
from stoker.library.store import discard


@dataclass(frozen=True, slots=True)
class Removal:
    """What remove_model did."""

    freed_bytes: int
    kept_shared_bytes: int  # blobs that another snapshot still uses


def remove_model(entry: ModelEntry, *, all_revisions: bool = True) -> Removal:
    """Deletes `entry` and frees what nothing else uses.

    `all_revisions` also takes it out of older snapshots of its repository, where it would otherwise
    be found again. Only paths inside stoker's store and the hub cache are touched: anything else, and
    a repository that is being downloaded right now, raises ModelError. ModelNotFound when it is gone.
    """
    if entry.source == "store":
        return _remove_stored(entry)
    if entry.source != "hub":
        raise ModelError(f"{entry.path} is not managed by stoker; delete it yourself")
    removals = [_remove_cached(entry)]
    if all_revisions:
        cached = scan_hub_cache(hub_cache_dir(), all_revisions=True)
        older = [item for item in cached if isinstance(item, ModelEntry) and item.id == entry.id]
        removals += [_remove_cached(item) for item in older]
    return Removal(sum(part.freed_bytes for part in removals), removals[-1].kept_shared_bytes)


def _remove_stored(entry: ModelEntry) -> Removal:
    root = store_dir()
    inside = _inside(entry.path, root)
    # A model of the catalog owns its folder; a loose GGUF file owns only itself.
    owned = _owned_folder(entry, root, inside)
    if not owned.exists() and not owned.is_symlink():
        raise ModelNotFound(f"{entry.id} is already gone")
    freed = 0 if owned.is_symlink() else _tree_bytes(owned)
    discard(owned)
    if owned.parent != root:
        with suppress(OSError):  # an `org` folder that has become empty
            owned.parent.rmdir()
    return Removal(freed, 0)


def _owned_folder(entry: ModelEntry, root: Path, inside: Path) -> Path:
    if entry.path.is_dir() or len(inside.parts) == 1:
        return root / inside
    folder = (root / inside).parent
    others = [path for path in folder.glob("*.gguf") if path not in entry.weights]
    return root / inside if others else folder


def _remove_cached(entry: ModelEntry) -> Removal:
    cache = hub_cache_dir()
    repo = repo_folder(cache, entry.repo_id)
    if entry.revision is None or "/" in entry.revision or entry.revision in ("", ".", ".."):
        raise ModelError(f"{entry.id} names no snapshot")
    snapshot = repo / "snapshots" / entry.revision
    _inside(snapshot, cache)
    for path in entry.weights:
        _inside(path, snapshot)
    if not snapshot.is_dir():
        raise ModelNotFound(f"{entry.id} is already gone")
    if any(is_locked(lock) for lock in lock_folder(cache, entry.repo_id).glob("*.lock")):
        raise ModelError(f"{entry.repo_id} is being downloaded; try again when that has ended")
    links = _links_of(entry, snapshot)
    blobs = {blob for link in links if (blob := _blob_of(link, repo))}
    for link in links:
        link.unlink()
    if not any(_is_weight(path) for path in snapshot.rglob("*")):
        blobs |= {blob for path in snapshot.rglob("*") if (blob := _blob_of(path, repo))}
        shutil.rmtree(snapshot)
        _drop_refs(repo, entry.revision)
    still_used = {blob for path in (repo / "snapshots").rglob("*") if (blob := _blob_of(path, repo))}
    sizes = {blob: blob.stat().st_size for blob in blobs if blob.exists()}
    for blob in sizes.keys() - still_used:
        blob.unlink()
    freed = sum(size for blob, size in sizes.items() if blob not in still_used)
    if not any((repo / "snapshots").iterdir()):
        freed += _tree_bytes(repo)  # leftovers of interrupted downloads
        shutil.rmtree(repo)
        shutil.rmtree(lock_folder(cache, entry.repo_id), ignore_errors=True)
    return Removal(freed, sum(sizes[blob] for blob in sizes.keys() & still_used))


def _links_of(entry: ModelEntry, snapshot: Path) -> list[Path]:
    """A GGUF owns its weight files; the model of config.json owns all but the GGUF files."""
    if entry.format == "gguf":
        return [path for path in entry.weights if path.is_symlink() or path.is_file()]
    files = [path for path in snapshot.rglob("*") if path.is_symlink() or path.is_file()]
    return [path for path in files if path.suffix.lower() != ".gguf"]


def _is_weight(path: Path) -> bool:
    return path.suffix.lower() in (".gguf", ".safetensors", ".bin") and not is_side_file(path.name)


def _blob_of(path: Path, repo: Path) -> Path | None:
    """The blob behind a snapshot link, when it is one of this repository's."""
    if not path.is_symlink():
        return None
    target = Path(os.path.normpath(path.parent / os.readlink(path)))
    return target if target.parent == repo / "blobs" else None


def _drop_refs(repo: Path, revision: str) -> None:
    for ref in (repo / "refs").rglob("*"):
        if ref.is_file() and ref.read_text(encoding="utf-8", errors="replace").strip() == revision:
            ref.unlink()


def _inside(path: Path, root: Path) -> Path:
    """`path` relative to `root`, judged after its folder's links are followed. Raises ModelError."""
    real = path.parent.resolve() / path.name
    try:
        relative = real.relative_to(root.resolve())
    except ValueError:
        raise ModelError(f"{path} is outside {root}; nothing was deleted") from None
    if not relative.parts or path.name in ("", ".", "..") or relative.parts[0].startswith("."):
        raise ModelError(f"{path} is no model of {root}; nothing was deleted")
    return relative


def _tree_bytes(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.lstat().st_size for file in files if file.is_file() and not file.is_symlink())
