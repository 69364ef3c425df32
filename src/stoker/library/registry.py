"""Answers "which model do you mean?": an id, part of one, or a path. Reads what scan.py gathered."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from stoker.errors import AmbiguousModel, ModelNotFound
from stoker.library.catalog import catalog_matches
from stoker.library.entry import Found, ModelEntry, ModelKind, Origin, Unusable, human_size
from stoker.library.inspect import inspect_folder, inspect_gguf
from stoker.library.scan import Scan, scan

_MAX_NAMED = 10  # models named in an error message


def list_models(*, all_revisions: bool = False) -> list[ModelEntry]:
    """Every complete model in the store and the hub cache, by id. Never raises for a damaged one."""
    return list(scan(all_revisions=all_revisions).models)


def find_model(query: str, *, kinds: Collection[ModelKind] | None = None) -> ModelEntry:
    """The one model `query` means: a path, an id, or part of an id or architecture (any case).

    An exact id wins over a name that only contains it. `kinds` narrows the choice.
    Raises ModelNotFound (with what is installed) or AmbiguousModel (with the candidates).
    """
    query = query.strip()
    path = Path(query).expanduser()
    if query and _is_path(query, path):
        return _choose(query, _inspect_path(path), kinds)
    found = scan()
    models = [model for model in found.models if kinds is None or model.kind in kinds]
    matches = match_models(query, models)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise _ambiguous(query, matches)
    raise ModelNotFound(_not_found(query, found, models))


def match_models(query: str, models: Sequence[ModelEntry]) -> list[ModelEntry]:
    """The best-matching tier: exact id, whole name, part of an id, part of an architecture."""
    exact = [model for model in models if model.id == query]
    if exact or not query:
        return exact[:1]
    wanted = query.casefold()
    tiers: tuple[Callable[[ModelEntry], bool], ...] = (
        lambda model: model.id.casefold() == wanted,
        lambda model: wanted in _whole_names(model),
        lambda model: wanted in model.id.casefold(),
        lambda model: wanted in model.architecture.casefold(),
    )
    for belongs in tiers:
        if matches := [model for model in models if belongs(model)]:
            # Models of no servable kind never stand in the way of one that can be served.
            return [model for model in matches if model.kind != "other"] or matches
    return []


def _whole_names(model: ModelEntry) -> set[str]:
    """`org/name:Q4` also answers to `org/name`, `name:Q4` and `name`."""
    name = model.id.casefold()
    plain = name.partition(":")[0]
    return {plain, name.rpartition("/")[2], plain.rpartition("/")[2]}


def _is_path(query: str, path: Path) -> bool:
    if query.startswith(("/", "./", "../", "~")) or query in {".", ".."} or os.path.isabs(query):
        return True
    if query.lower().endswith(".gguf"):
        return path.exists() or os.sep not in query
    return (path / "config.json").is_file() or (path.is_dir() and any(path.glob("*.gguf")))


def _inspect_path(path: Path) -> list[Found]:
    path = path.absolute()
    if path.is_file():
        return inspect_gguf(path, Origin(path.stem, "path"), path.stem)
    if path.is_dir():
        return inspect_folder(path, Origin(path.resolve().name, "path"))
    raise ModelNotFound(f"{path} does not exist")


def _choose(query: str, found: list[Found], kinds: Collection[ModelKind] | None) -> ModelEntry:
    every = [item for item in found if isinstance(item, ModelEntry)]
    models = [model for model in every if kinds is None or model.kind in kinds]
    if len(models) == 1:
        return models[0]
    if models:
        raise _ambiguous(query, models)
    for item in found:
        if isinstance(item, Unusable):
            raise ModelNotFound(f"{query} cannot be used: {item.reason}")
    if every:
        raise ModelNotFound(f"{query} holds a {every[0].kind} model, not {_either(kinds)}")
    raise ModelNotFound(
        f"{query} holds no model: expected a .gguf file, or a folder with config.json and weights"
    )


def _either(kinds: Collection[ModelKind] | None) -> str:
    return " or ".join(kinds or ("a model",))


def _ambiguous(query: str, matches: list[ModelEntry]) -> AmbiguousModel:
    lines = [f"  {model.id}  ({human_size(model.size_bytes)})" for model in matches]
    message = f"{query!r} matches {len(matches)} models; name one of them:\n" + "\n".join(lines)
    return AmbiguousModel(message, tuple(model.id for model in matches))


def _not_found(query: str, found: Scan, models: list[ModelEntry]) -> str:
    lines = [f"no model matches {query!r}"]
    lines += [
        f"{item.id} cannot be used: {item.reason}" for item in found.unusable if _part_of(query, item.id)
    ]
    names = [model.id for model in models]
    if near := nearest_names(query, names):
        lines.append("did you mean: " + ", ".join(near))
    if names:
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        lines.append("installed: " + ", ".join(names[:_MAX_NAMED]) + more)
    else:
        lines.append("no models are installed")
    lines.append(f"to download: stoker get {_download_hint(query)}")
    return "\n".join(lines)


def _part_of(query: str, name: str) -> bool:
    return bool(query) and query.casefold() in name.casefold()


def nearest_names(query: str, names: list[str]) -> list[str]:
    """Up to three names that resemble `query`, compared without the owner and the case."""
    by_short = {name.rpartition("/")[2].casefold(): name for name in names}
    wanted = query.rpartition("/")[2].casefold()
    return [by_short[short] for short in difflib.get_close_matches(wanted, by_short, n=3, cutoff=0.5)]


def _download_hint(query: str) -> str:
    if matches := catalog_matches(query):
        return matches[0].id
    return query if query.count("/") == 1 else "<org/repo>"
