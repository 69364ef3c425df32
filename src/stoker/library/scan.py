"""Looks through the hub cache and stoker's store and gathers what is there. No query logic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import CorruptModel
from stoker.library.entry import Found, ModelEntry, Origin, Unusable
from stoker.library.inspect import MANIFEST_NAME, inspect_folder, inspect_gguf, read_json_object
from stoker.library.paths import hub_cache_dir, store_dir
from stoker.library.quant_labels import is_side_file

_HUB_PREFIX = "models--"


@dataclass(frozen=True, slots=True)
class Scan:
    """Everything found, by id."""

    models: tuple[ModelEntry, ...]
    unusable: tuple[Unusable, ...]


def scan(*, all_revisions: bool = False) -> Scan:
    """Both places. The store comes first when the same id is in both.

    With `all_revisions`, older snapshots of hub repositories are included, `canonical` False.
    """
    found = [*scan_store(store_dir()), *scan_hub_cache(hub_cache_dir(), all_revisions=all_revisions)]
    models: dict[tuple[str, str | None], ModelEntry] = {}
    unusable: dict[str, Unusable] = {}
    for item in found:
        if isinstance(item, Unusable):
            unusable.setdefault(item.id, item)
        else:
            models.setdefault((item.id, item.revision if all_revisions else None), item)
    complete = {model.id for model in models.values()}
    ordered = sorted(models.values(), key=lambda model: (model.id.casefold(), not model.canonical))
    return Scan(tuple(ordered), tuple(item for item in unusable.values() if item.id not in complete))


def scan_hub_cache(cache: Path, *, all_revisions: bool = False) -> Iterator[Found]:
    """Models in `models--*/snapshots/*`.

    The canonical snapshot is the one refs/main names, else the newest. A model that is complete
    only in an older snapshot is taken from there, so that a refresh under way hides nothing.
    """
    for repo in _folders(cache):
        if not repo.name.startswith(_HUB_PREFIX):
            continue
        repo_id = repo.name[len(_HUB_PREFIX) :].replace("--", "/")
        seen: set[str] = set()
        for rank, snapshot in enumerate(ordered_snapshots(repo)):
            origin = Origin(repo_id, "hub", snapshot.name, canonical=rank == 0, label_quants=True)
            for item in _inspect(snapshot, origin):
                if all_revisions or item.id not in seen:
                    yield item
                if isinstance(item, ModelEntry):
                    seen.add(item.id)


def ordered_snapshots(repo: Path) -> list[Path]:
    """Snapshot folders of one cached repository, canonical first, then newest first."""
    try:
        main = (repo / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        main = ""
    snapshots = list(_folders(repo / "snapshots"))
    return sorted(snapshots, key=lambda path: (path.name != main, -_mtime(path)))


def scan_store(store: Path) -> Iterator[Found]:
    """Models below `store`: folders (with or without a manifest, also `org/name`) and loose GGUFs."""
    for path in _ggufs(store):
        yield from inspect_gguf(path, Origin(path.stem, "store"), path.stem)
    for folder in _folders(store):
        found = list(_inspect_stored(folder, folder.name))
        if not found:
            for inner in _folders(folder):
                found += _inspect_stored(inner, f"{folder.name}/{inner.name}")
        yield from found


def _inspect_stored(folder: Path, name: str) -> list[Found]:
    manifest = folder / MANIFEST_NAME
    if manifest.is_file():
        try:
            name = check_manifest(folder)
        except (OSError, CorruptModel) as error:
            return [Unusable(name, folder, getattr(error, "message", str(error)))]
    elif any(_folders(folder)) and not (folder / "config.json").is_file() and not any(_ggufs(folder)):
        return []  # an `org` folder: its models are one level down
    return _inspect(folder, Origin(name, "store"))


def check_manifest(folder: Path) -> str:
    """The id in `folder`'s manifest, once every file it lists is there with its size.

    Raises CorruptModel otherwise. Checksums were verified when the model was stored.
    """
    manifest = read_json_object(folder / MANIFEST_NAME)
    files, name = manifest.get("files"), manifest.get("id")
    if not isinstance(files, dict) or not isinstance(name, str):
        raise CorruptModel(f"{MANIFEST_NAME} is damaged")
    for file, facts in files.items():
        path = folder / file
        if not path.is_file():
            raise CorruptModel(f"{file} is missing")
        if not isinstance(facts, dict) or path.stat().st_size != facts.get("size_bytes"):
            raise CorruptModel(f"{file} does not have its recorded size")
    return name


def _inspect(folder: Path, origin: Origin) -> list[Found]:
    try:
        return inspect_folder(folder, origin)
    except OSError as error:
        return [Unusable(origin.id, folder, f"cannot be read: {error.strerror or error}")]


def _folders(parent: Path) -> Iterator[Path]:
    """Visible subfolders; a parent that is absent or unreadable has none."""
    try:
        children = sorted(parent.iterdir())
    except OSError:
        return
    yield from (child for child in children if not child.name.startswith(".") and child.is_dir())


def _ggufs(folder: Path) -> Iterator[Path]:
    try:
        children = sorted(folder.iterdir())
    except OSError:
        return
    for child in children:
        if child.suffix.lower() == ".gguf" and child.is_file() and not is_side_file(child.name):
            yield child


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
