"""A hub on a local port, with faults to order: the API, file resolution, ranges, redirects to a CDN.

Small enough to read; knows nothing of stoker.
"""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "1" * 40


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Fault:
    """What goes wrong with one answer. Everything else stays right."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    drop_after: int | None = None  # announce all, send this many bytes of the body, cut the connection
    end_after: int | None = None  # announce and send only this many
    flip_byte: int | None = None  # change the byte at this offset of the file
    extra: bytes = b""  # appended to the body, announced
    ignore_range: bool = False
    wrong_range: bool = False  # answer 206 with another start
    gate: threading.Event | None = None  # send half, then wait for this
    stall_s: float = 0.0


@dataclass
class HubFile:
    content: bytes
    lfs: bool = True
    facts: dict[str, Any] = field(default_factory=dict)  # overrides in the API's listing
    hidden: bool = False  # listing without size and checksum
    etag: str | None = None  # the ETag header, where it is not the plain quoted one

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest() if self.lfs else git_sha1(self.content)


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    server: str  # "hub" or "cdn"
    method: str
    path: str
    headers: dict[str, str]

    @property
    def range(self) -> str | None:
        return self.headers.get("range")


class FakeHub:
    """Serves `repos`; `faults[name]` are used up, one for each GET of that file."""

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, HubFile]] = {}
        self.commits: dict[str, str] = {}
        self.faults: dict[str, list[Fault]] = {}
        self.api_faults: list[Fault] = []
        self.search_rows: list[dict[str, Any]] = []
        self.use_cdn = False  # LFS files are answered with a redirect to the second server
        self.required_token: str | None = None
        self.seen: list[Seen] = []
        self.lock = threading.Lock()
        self._servers = {name: _start(self, name) for name in ("hub", "cdn")}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._servers['hub'].server_port}"

    @property
    def cdn_url(self) -> str:
        return f"http://localhost:{self._servers['cdn'].server_port}"

    def add(self, repo_id: str, files: dict[str, bytes | HubFile], commit: str = COMMIT) -> None:
        def as_file(name: str, value: bytes | HubFile) -> HubFile:
            big = name.endswith((".safetensors", ".gguf", ".bin"))
            return value if isinstance(value, HubFile) else HubFile(value, lfs=big)

        self.repos[repo_id] = {name: as_file(name, value) for name, value in files.items()}
        self.commits[repo_id] = commit

    def fetches(self, name: str) -> list[Seen]:
        """GETs of one file that reached its bytes."""
        server = "cdn" if self.use_cdn else "hub"
        return [
            s for s in self.seen if s.method == "GET" and s.path.endswith("/" + name) and s.server == server
        ]

    def close(self) -> None:
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def take_fault(self, name: str) -> Fault:
        with self.lock:
            faults = self.faults.get(name)
            return faults.pop(0) if faults else Fault()


def _start(hub: FakeHub, name: str) -> ThreadingHTTPServer:
    class Handler(_Handler):
        pass

    Handler.hub, Handler.server_name_ = hub, name
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    server_name_: str
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: object) -> None:
        pass

    def handle(self) -> None:
        with suppress(ConnectionResetError, BrokenPipeError):
            super().handle()

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.hub.lock:
            self.hub.seen.append(Seen(self.server_name_, self.command, self.path, headers))
        try:
            self._route(urlsplit(self.path), headers)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _route(self, url: Any, headers: dict[str, str]) -> None:
        path = unquote(url.path)
        token = self.hub.required_token
        if self.server_name_ == "hub" and token and headers.get("authorization") != f"Bearer {token}":
            self._send(401, b"", {"X-Error-Code": "GatedRepo"})
        elif path == "/api/models":
            self._json(self.hub.search_rows)
        elif path.startswith("/api/models/"):
            self._repo(path, parse_qs(url.query))
        else:
            self._file(path, headers)

    def _repo(self, path: str, query: dict[str, list[str]]) -> None:
        with self.hub.lock:
            fault = self.hub.api_faults.pop(0) if self.hub.api_faults else Fault()
        repo_id = path.removeprefix("/api/models/").partition("/revision/")[0]
        if fault.status:
            self._send(fault.status, b"", fault.headers)
        elif repo_id not in self.hub.repos:
            self._send(404, b"", {"X-Error-Code": "RepoNotFound"})
        else:
            assert query.get("blobs") == ["true"]
            siblings = [_listing(name, file) for name, file in self.hub.repos[repo_id].items()]
            self._json({"id": repo_id, "sha": self.hub.commits[repo_id], "siblings": siblings})

    def _file(self, path: str, headers: dict[str, str]) -> None:
        repo_id, _, rest = path.strip("/").partition("/resolve/")
        name = rest.partition("/")[2]
        file = self.hub.repos.get(repo_id, {}).get(name)
        if file is None:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        elif self.hub.use_cdn and file.lfs and self.server_name_ == "hub":
            linked = {"X-Linked-Etag": f'"{file.digest}"', "X-Linked-Size": str(len(file.content))}
            self._send(302, b"", {"Location": self.hub.cdn_url + self.path, **linked})
        else:
            self._content(name, file, headers)

    def _content(self, name: str, file: HubFile, headers: dict[str, str]) -> None:
        fault = self.hub.take_fault(name) if self.command == "GET" else Fault()
        if fault.stall_s:
            threading.Event().wait(fault.stall_s)
        if fault.status:
            self._send(fault.status, b"", fault.headers)
            return
        body = bytearray(file.content)
        if fault.flip_byte is not None:
            body[fault.flip_byte] ^= 1
        asked = headers.get("range", "")
        start = 0 if fault.ignore_range or not asked else int(asked.removeprefix("bytes=").rstrip("-"))
        if start > len(body):
            self._send(416, b"", {"Content-Range": f"bytes */{len(body)}"})
            return
        part = bytes(body[start:]) + fault.extra
        extra_headers = {"ETag": file.etag or f'"{file.digest}"'}
        if start:
            shown = start + 1 if fault.wrong_range else start
            extra_headers["Content-Range"] = f"bytes {shown}-{len(body) - 1}/{len(body)}"
        if fault.end_after is not None:
            part = part[: fault.end_after]
        self._head(206 if start else 200, len(part), extra_headers)
        if self.command == "HEAD":
            return
        if fault.drop_after is not None:
            self.wfile.write(part[: fault.drop_after])
            self._cut()
        elif fault.gate is not None:
            self.wfile.write(part[: len(part) // 2])
            self.wfile.flush()
            fault.gate.wait(20)
            self.wfile.write(part[len(part) // 2 :])
        else:
            self.wfile.write(part)

    def _cut(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self._head(status, len(body), headers)
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def _listing(name: str, file: HubFile) -> dict[str, Any]:
    if file.hidden:
        return {"rfilename": name}
    size = len(file.content)
    row: dict[str, Any] = {"rfilename": name, "size": size, "blobId": git_sha1(file.content)}
    if file.lfs:
        row["blobId"] = git_sha1(b"pointer to " + file.digest.encode())
        row["lfs"] = {"sha256": file.digest, "size": size, "pointerSize": 134}
    for key, value in file.facts.items():
        (row["lfs"] if file.lfs and key in row["lfs"] else row)[key] = value
    return row
