"""`stoker get`: decides where a model comes from and brings it here. Also searches the hub."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from stoker.errors import AmbiguousModel, DownloadError, ModelNotFound
from stoker.library.catalog import CatalogModel, catalog_matches, catalog_model
from stoker.library.entry import ModelEntry, Origin
from stoker.library.inspect import inspect_folder
from stoker.library.paths import hub_offline
from stoker.library.progress import Progress, Quiet
from stoker.library.registry import list_models, match_models, nearest_names

if TYPE_CHECKING:
    from stoker.library.catalog_download import AcceptLicense
    from stoker.library.hub import SearchResult
    from stoker.library.transfer import TransferOptions

_SEARCH_TIMEOUT_S = 10.0


def get_model(
    name: str,
    *,
    revision: str = "main",
    progress: Progress | None = None,
    token: str | None = None,
    accept_license: AcceptLicense | bool = False,
    force: bool = False,
    options: TransferOptions | None = None,
) -> ModelEntry:
    """Downloads `name` unless it is here already, and returns it.

    name            a catalog id, `org/repo`, `org/repo:Q4_K_M` for a GGUF quantization, or part of
                    a catalog id or of an installed hub model (which is then refreshed)
    revision        branch, tag or commit of a hub repository
    token           for the hub; None = HF_TOKEN or the token file
    accept_license  True, or a callable asked with the catalog entry, for models whose terms must be
                    agreed to
    force           download a catalog model again although it is in the store

    Raises ModelNotFound, AmbiguousModel, UnsupportedModel, CorruptModel or DownloadError. After a
    failure nothing incomplete is listed as a model, and the next call resumes.
    """
    from stoker.library.transfer import TransferOptions

    progress, options = progress or Quiet(), options or TransferOptions()
    target = _resolve(name.strip())
    try:
        if isinstance(target, CatalogModel):
            from stoker.library.catalog_download import get_catalog_model

            return get_catalog_model(
                target,
                progress=progress,
                token=token,
                accept_license=accept_license,
                force=force,
                options=options,
            )
        return _get_from_hub(target, revision, progress, token, options)
    except OSError as error:
        raise DownloadError(
            f"{name}: {error.strerror or error} ({error.filename or 'no file named'})"
        ) from error


def search(
    query: str, *, limit: int = 30, architectures: Collection[str] | None = None, token: str | None = None
) -> list[SearchResult]:
    """Hub repositories that match `query` and hold weights stoker can read, most downloaded first.

    Raises HubUnreachable (a DownloadError) when there is no network.
    """
    from stoker.library.hub import HubClient
    from stoker.library.transfer import TransferOptions

    with HubClient(token=token, options=TransferOptions(read_timeout_s=_SEARCH_TIMEOUT_S)) as client:
        return client.search(query, limit=limit, architectures=architectures)


def _resolve(name: str) -> CatalogModel | str:
    """A catalog entry, or the `org/repo[:quant]` that `name` means."""
    if exact := catalog_model(name):
        return exact
    if "/" in name:
        return name
    starters = catalog_matches(name)
    installed = match_models(name, [model for model in list_models() if model.source == "hub"])
    candidates = [*(model.id for model in starters), *(model.id for model in installed)]
    if len(candidates) == 1:
        return starters[0] if starters else installed[0].id
    if candidates:
        lines = "\n".join(f"  {candidate}" for candidate in candidates)
        raise AmbiguousModel(f"{name!r} may mean:\n{lines}", tuple(candidates))
    from stoker.library.catalog import catalog

    known = [model.id for model in catalog()]
    near = nearest_names(name, known)
    raise ModelNotFound(
        f"{name!r} is neither a starter model ({', '.join(near or known)}) nor a repository name "
        "(org/repo, as on Hugging Face)"
    )


def _get_from_hub(
    name: str, revision: str, progress: Progress, token: str | None, options: TransferOptions
) -> ModelEntry:
    from stoker.library.hub import HubClient, HubUnreachable
    from stoker.library.hub_download import download_repo

    repo_id, _, quant = name.partition(":")
    try:
        if hub_offline():
            raise HubUnreachable("HF_HUB_OFFLINE is set")
        with HubClient(token=token, options=options) as client:
            info = client.repo_info(repo_id, revision)
            snapshot, files = download_repo(client, info, revision, quant or None, progress, options)
    except HubUnreachable as error:
        kept = match_models(name, [model for model in list_models() if model.source == "hub"])
        if len(kept) == 1 and name.casefold() in (kept[0].id.casefold(), kept[0].repo_id.casefold()):
            progress.note(f"{error.message}; the copy on this machine is used")
            return kept[0]
        raise
    found = inspect_folder(snapshot, Origin(repo_id, "hub", info.commit, label_quants=True))
    wanted = {snapshot / file for file in files}
    for item in found:  # the snapshot may hold other quantizations from earlier
        if isinstance(item, ModelEntry) and wanted.issuperset(item.weights):
            return item
    reasons = "; ".join(item.reason for item in found if not isinstance(item, ModelEntry))
    raise DownloadError(f"{repo_id} was downloaded but is no usable model: {reasons or 'no model in it'}")
