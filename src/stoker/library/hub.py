"""Talks to a Hugging Face hub: what a repository holds, opening its files, searching. Stores nothing.

API: https://huggingface.co/docs/hub/api. huggingface_hub is not used here: it neither verifies checksums
nor checks free space before it starts, and its resuming cannot be shared with other sources.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote, urljoin

import httpx

from stoker import __version__
from stoker.errors import DownloadError, ModelNotFound
from stoker.library.paths import hub_endpoint, hub_token
from stoker.library.transfer import RemoteFile, TransferOptions

_REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REDIRECTS = {301, 302, 303, 307, 308}
_MAX_REDIRECTS = 8


class HubUnreachable(DownloadError):
    """No answer from the hub: offline, blocked, or down."""


@dataclass(frozen=True, slots=True)
class Sibling:
    """One file as the hub lists it; the checksum may be missing on old mirrors."""

    name: str
    size_bytes: int | None
    algorithm: Literal["sha256", "git-sha1"] | None
    digest: str | None


@dataclass(frozen=True, slots=True)
class RepoInfo:
    repo_id: str
    commit: str  # 40 hex digits
    files: tuple[Sibling, ...]

    def names(self) -> list[str]:
        return [file.name for file in self.files]


@dataclass(frozen=True, slots=True)
class SearchResult:
    id: str
    downloads: int
    likes: int
    gated: bool
    formats: tuple[str, ...]  # of "safetensors", "gguf"
    architecture: str | None  # model_type


class HubClient:
    """One connection pool to one hub. Use as a context manager; safe to share between threads."""

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        token: str | None = None,
        options: TransferOptions | None = None,
    ) -> None:
        options = options or TransferOptions()
        self.endpoint = (endpoint or hub_endpoint()).rstrip("/")
        self._token = hub_token(token)
        if not _is_web_address(self.endpoint):
            raise DownloadError(f"HF_ENDPOINT must be an http:// or https:// address, not {self.endpoint!r}")
        if self._token and not re.fullmatch(r"[!-~]+", self._token):
            raise DownloadError("the Hugging Face token holds characters that no token has")
        timeout = httpx.Timeout(options.read_timeout_s, connect=options.connect_timeout_s, pool=None)
        self._http = httpx.Client(
            timeout=timeout, verify=_ssl_context(), headers={"User-Agent": f"stoker/{__version__}"}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def repo_info(self, repo_id: str, revision: str = "main") -> RepoInfo:
        """The commit behind `revision` and its files.

        Raises HubUnreachable, ModelNotFound (no such repository or revision) or DownloadError
        (refused, or an answer that cannot be trusted).
        """
        if not _REPO_ID.fullmatch(repo_id) or ".." in repo_id:
            raise ModelNotFound(f"{repo_id!r} is not a repository name (expected org/name)")
        url = f"{self.endpoint}/api/models/{repo_id}/revision/{quote(revision, safe='')}"
        body = self._get_json(url, {"blobs": "true"}, repo_id)
        commit, siblings = body.get("sha"), body.get("siblings")
        if not isinstance(commit, str) or not _COMMIT.fullmatch(commit) or not isinstance(siblings, list):
            raise DownloadError(f"{self.endpoint} gave no usable file list for {repo_id}")
        return RepoInfo(repo_id, commit, tuple(_sibling(item) for item in siblings))

    def remote_file(self, info: RepoInfo, file: Sibling) -> RemoteFile:
        """`file` with size and checksum, asking for them one by one where the list has none.

        Raises DownloadError when the hub gives no checksum: nothing unverified is stored.
        """
        url = f"{self.endpoint}/{info.repo_id}/resolve/{info.commit}/{quote(file.name)}"
        if file.size_bytes is None or file.algorithm is None or file.digest is None:
            file = self._head(url, info.repo_id, file.name)
        if file.size_bytes is None or file.algorithm is None or file.digest is None:
            raise DownloadError(f"{self.endpoint} gives no checksum for {file.name}; refusing to store it")
        return RemoteFile(info.repo_id, file.name, url, file.size_bytes, file.algorithm, file.digest)

    @contextmanager
    def stream(self, url: str, headers: dict[str, str], method: str = "GET") -> Iterator[httpx.Response]:
        """Opens `url`, following redirects. The token goes to the hub's own origin only."""
        for _ in range(_MAX_REDIRECTS):
            request = self._http.build_request(method, url, headers=headers | self._credentials(url))
            response = self._http.send(request, stream=True, follow_redirects=False)
            location = response.headers.get("location")
            if response.status_code not in _REDIRECTS or not location:
                break
            response.close()
            url = self._next_url(url, location)
        else:
            raise DownloadError(f"{self.endpoint} redirects without end")
        try:
            yield response
        finally:
            response.close()

    def refusal(self, response: httpx.Response, repo_id: str, name: str = "") -> DownloadError:
        """What a status other than success means, for the person who asked for `repo_id`."""
        status, code = response.status_code, response.headers.get("x-error-code", "")
        what = f"{repo_id}/{name}" if name else repo_id
        if status in (401, 403):
            token = "the token in use may lack access" if self._token else "no token is set"
            return DownloadError(
                f"{self.endpoint} refused {what} (HTTP {status}): the repository is gated, private or "
                f"does not exist, and {token}. Accept its terms at {self.endpoint}/{repo_id} and set "
                "HF_TOKEN to a token that may read it"
            )
        detail = f", {code}" if code else ""
        return DownloadError(f"{self.endpoint} answered HTTP {status}{detail} for {what}")

    def search(
        self, query: str, *, limit: int = 30, architectures: Collection[str] | None = None
    ) -> list[SearchResult]:
        """Repositories with safetensors or GGUF weights, most downloaded first.

        `architectures` keeps those whose declared model_type is in it; repositories that declare
        none (most GGUF ones) stay. Raises HubUnreachable or DownloadError.
        """
        params = {"search": query, "sort": "downloads", "direction": "-1", "limit": "100", "config": "true"}
        body = self._get_json(f"{self.endpoint}/api/models", params, query)
        results = [result for row in body.get("list", []) if (result := _search_result(row))]
        if architectures is not None:
            results = [
                row for row in results if row.architecture is None or row.architecture in architectures
            ]
        return results[:limit]

    def _get_json(self, url: str, params: dict[str, str], name: str) -> dict[str, Any]:
        """The JSON object at `url`; a list comes back as `{"list": [...]}`."""
        full = str(httpx.URL(url, params=params))
        try:
            with self.stream(full, {"Accept": "application/json"}) as response:
                response.read()
        except httpx.RequestError as error:
            reason = str(error) or type(error).__name__
            raise HubUnreachable(f"cannot reach {self.endpoint}: {reason}") from error
        if response.status_code == 404:
            what = "revision" if response.headers.get("x-error-code") == "RevisionNotFound" else "repository"
            raise ModelNotFound(f"{self.endpoint} has no such {what}: {name}")
        if response.status_code == 429 or response.status_code >= 500:
            raise HubUnreachable(f"{self.endpoint} answered HTTP {response.status_code}; try again later")
        if response.status_code != 200:
            raise self.refusal(response, name)
        try:
            body = response.json()
        except ValueError as error:
            raise DownloadError(f"{self.endpoint} did not answer with JSON; is it a hub?") from error
        return body if isinstance(body, dict) else {"list": body if isinstance(body, list) else []}

    def _head(self, url: str, repo_id: str, name: str) -> Sibling:
        """Size and checksum from headers; X-Linked-* describe an LFS file, the plain ones git content."""
        try:
            with self.stream(url, {"Accept-Encoding": "identity"}, method="HEAD") as response:
                if response.status_code != 200:
                    raise self.refusal(response, repo_id, name)
                etag = response.headers.get("x-linked-etag") or response.headers.get("etag", "")
                size = response.headers.get("x-linked-size") or response.headers.get("content-length", "")
        except httpx.TransportError as error:
            raise HubUnreachable(f"cannot reach {self.endpoint}: {error}") from error
        digest = etag.removeprefix("W/").strip('"').lower()
        return Sibling(name, int(size) if size.isdigit() else None, _algorithm(digest), digest)

    def _credentials(self, url: str) -> dict[str, str]:
        same = self._token and _origin(url) == _origin(self.endpoint)
        return {"Authorization": f"Bearer {self._token}"} if same else {}

    def _next_url(self, url: str, location: str) -> str:
        target = urljoin(url, location)
        downgraded = url.startswith("https://") and not target.startswith("https://")
        if downgraded or not _is_web_address(target):
            raise DownloadError(f"{self.endpoint} redirects to an unsafe address")
        return target


@lru_cache(maxsize=1)
def _ssl_context() -> ssl.SSLContext:
    return httpx.create_ssl_context()  # reading the certificates takes a tenth of a second


def _origin(url: str) -> tuple[str, str, int | None]:
    parsed = httpx.URL(url)
    return parsed.scheme, parsed.host, parsed.port or {"http": 80, "https": 443}.get(parsed.scheme)


def _is_web_address(url: str) -> bool:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return False
    return parsed.scheme in ("http", "https") and bool(parsed.host)


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _algorithm(digest: str | None) -> Literal["sha256", "git-sha1"] | None:
    if digest and _SHA256.fullmatch(digest):
        return "sha256"
    return "git-sha1" if digest and _COMMIT.fullmatch(digest) else None


def _sibling(item: object) -> Sibling:
    """One entry of `siblings`. Raises DownloadError for names that would leave the repository's folder."""
    if not isinstance(item, dict) or not isinstance(item.get("rfilename"), str):
        raise DownloadError("the hub's file list is damaged")
    name = item["rfilename"]
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or any(mark in name for mark in ("\\", "\0", ":")):
        raise DownloadError(f"the hub lists a file with the unsafe name {name!r}; nothing was downloaded")
    lfs = item.get("lfs")
    source = lfs if isinstance(lfs, dict) else item
    size = source.get("size")
    digest = source.get("sha256") or source.get("oid") if source is lfs else item.get("blobId")
    digest = digest.lower() if isinstance(digest, str) else None
    valid_size = isinstance(size, int) and not isinstance(size, bool) and size >= 0
    return Sibling(name, size if valid_size else None, _algorithm(digest), digest)


def _search_result(row: object) -> SearchResult | None:
    if not isinstance(row, dict) or not isinstance(row.get("id") or row.get("modelId"), str):
        return None
    tags = row.get("tags")
    formats = tuple(name for name in ("safetensors", "gguf") if isinstance(tags, list) and name in tags)
    config = row.get("config")
    model_type = config.get("model_type") if isinstance(config, dict) else None
    if not formats:
        return None
    return SearchResult(
        id=str(row.get("id") or row.get("modelId")),
        downloads=_count(row.get("downloads")),
        likes=_count(row.get("likes")),
        gated=bool(row.get("gated")),
        formats=formats,
        architecture=model_type if isinstance(model_type, str) else None,
    )
