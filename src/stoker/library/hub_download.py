"""Puts a repository into the Hugging Face cache in its standard layout, so that other tools share it.

    models--org--name/blobs/<sha256 or git sha1>      the bytes, under their checksum
    models--org--name/snapshots/<commit>/<path>       links into blobs/
    models--org--name/refs/main                       the commit
    .locks/models--org--name/<checksum>.lock          one writer per blob, as huggingface_hub locks it

Links and the ref are written only after every blob is there: a snapshot is never half a model.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable
from pathlib import Path

from stoker.library.fetch import fetch_all
from stoker.library.hub import HubClient, RepoInfo
from stoker.library.paths import hub_cache_dir, lock_folder, repo_folder
from stoker.library.progress import Meter, Progress
from stoker.library.selection import select_files
from stoker.library.transfer import RemoteFile, TransferOptions

_COMMIT = re.compile(r"[0-9a-f]{40}")


def download_repo(
    client: HubClient,
    info: RepoInfo,
    revision: str,
    quant: str | None,
    progress: Progress,
    options: TransferOptions,
) -> tuple[Path, list[str]]:
    """Fetches what is missing of `info`: the snapshot folder and the files chosen. Errors: see get_model."""
    cache = hub_cache_dir()
    repo = repo_folder(cache, info.repo_id)
    wanted = select_files(info.repo_id, {file.name: file.size_bytes for file in info.files}, quant)
    listed = {file.name: file for file in info.files}
    files = [client.remote_file(info, listed[name]) for name in wanted]
    meter = Meter(info.repo_id, {file.name: file.size_bytes for file in files}, progress)
    blobs = repo / "blobs"
    locks = lock_folder(cache, info.repo_id)
    by_digest = {file.digest: file for file in files}  # equal content is fetched once
    fetch_all(
        client,
        [(file, blobs / digest, locks / f"{digest}.lock") for digest, file in by_digest.items()],
        meter,
        options,
    )
    for file in files:
        meter.place(file.name, file.size_bytes)
    snapshot = repo / "snapshots" / info.commit
    _link(snapshot, blobs, files)
    if not _COMMIT.fullmatch(revision):
        _write_ref(repo / "refs", revision, info.commit)
    meter.flush()
    return snapshot, wanted


def _link(snapshot: Path, blobs: Path, files: Iterable[RemoteFile]) -> None:
    """Weights come last, so that a reader in between sees no model rather than half of one."""
    for file in sorted(files, key=lambda file: file.size_bytes):
        link = snapshot / file.name
        link.parent.mkdir(parents=True, exist_ok=True)
        target = os.path.relpath(blobs / file.digest, link.parent)
        if link.is_symlink() and os.readlink(link) == target:
            continue
        fresh = _fresh_name(link)
        fresh.symlink_to(target)
        os.replace(fresh, link)


def _fresh_name(path: Path) -> Path:
    """A name beside `path` that no other process or thread uses."""
    return path.with_name(f".{uuid.uuid4().hex}.new")


def _write_ref(refs: Path, revision: str, commit: str) -> None:
    parts = revision.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in revision:
        return  # the hub accepted it, the file system must not
    path = refs.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = _fresh_name(path)
    fresh.write_text(commit, encoding="utf-8")
    os.replace(fresh, path)
