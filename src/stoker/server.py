"""The HTTP server around the application: limits on what a connection may send, and shutdown.

Protocols and routes live in api/; this file knows bytes, sockets, timers and signals.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from stoker.config import Settings
from stoker.write_now import WRITE_NOW

log = logging.getLogger("stoker.server")

MAX_HEADER_BYTES = 64 * 1024  # request line and headers together
HEADER_TIMEOUT_S = 30.0  # from the first byte (or the connection) to the end of the headers
BODY_IDLE_TIMEOUT_S = 30.0  # between two pieces of a body
KEEP_ALIVE_TIMEOUT_S = 75
LINGER_S = 2.0  # after a refusal, so that a client still sending can read it before the connection ends
HURRY_S = 3.0  # from the second signal to the end, for last words to clients that read them


class GuardedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with a limit on header bytes and on the time a request may take to arrive.

    Without them one client could hold memory or connections for ever. Refusals carry JSON in
    the protocol's error shape.
    """

    header_timeout_s = HEADER_TIMEOUT_S
    body_idle_timeout_s = BODY_IDLE_TIMEOUT_S

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_headers = True  # the next bytes belong to a request line or headers
        self._header_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_more(self.header_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._in_headers:
            self._header_bytes += len(data)
            # A body that came along in the same piece is counted too, hence the second look.
            if self._header_bytes > MAX_HEADER_BYTES and b"\r\n\r\n" not in data:
                self._refuse(431, f"the request's headers are larger than {MAX_HEADER_BYTES} bytes")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_headers = True
        if self._deadline is None:
            self._expect_more(self.header_timeout_s)

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._header_bytes = 0
        self._expect_more(self.body_idle_timeout_s)
        super().on_headers_complete()
        scope = cast(dict[str, Any], self.cycle.scope)
        scope[WRITE_NOW] = partial(_write_now, self.cycle, self.transport.write)

    def on_body(self, body: bytes) -> None:
        self._expect_more(self.body_idle_timeout_s)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_headers = True
        self._expect_nothing()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing to say: the request is answered as if it had not asked, as HTTP has it."""

    def _expect_more(self, within_s: float) -> None:
        self._expect_nothing()
        self._deadline = self.loop.call_later(within_s, self._too_slow)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if self.flow.read_paused or self._answering():  # the wait is ours
            self._expect_more(self.body_idle_timeout_s)
        elif self._header_bytes or not self._in_headers:
            self._refuse(408, "the request took too long to arrive")
        else:
            self.transport.close()  # nothing was ever asked

    def _answering(self) -> bool:
        """Whether an earlier request of this connection is complete and its answer is not."""
        cycle = self.cycle
        return (
            cycle is not None
            and not cycle.response_complete
            and (cycle.response_started or not cycle.more_body)
        )

    def _refuse(self, status: int, message: str) -> None:
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        if self._answering():
            self.transport.close()  # nothing else may be written into that answer
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True  # the application waits for a body that will not come
            scope = cast(dict[str, Any], self.cycle.scope)
            scope["stoker.status"] = status  # for metrics and the access log
            self.cycle.message_event.set()
        body = json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode()
        head = (
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        # Closing with unread bytes would reset the connection and lose the answer.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._deadline = self.loop.call_later(LINGER_S, self.transport.close)


def _write_now(cycle: RequestResponseCycle, write: Callable[[bytes], None], data: bytes) -> bool:
    """Writes a piece of a streamed body as `cycle.send` would. False, with nothing written, where that
    would do anything else: wait for the client, drop the piece, leave out the body of a HEAD."""
    if cycle.flow.write_paused or cycle.disconnected or cycle.response_complete:
        return False
    if not data or not cycle.chunked_encoding:
        return False
    write(b"%x\r\n%b\r\n" % (len(data), data))
    return True


class Server(uvicorn.Server):
    """uvicorn's server with our signals: the first lets running answers finish, the second cuts them short
    and leaves HURRY_S to tell their clients, the third ends the process.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        on_started: Callable[[], None],
        on_stopping: Callable[[], None],
        on_hurry: Callable[[], None],
    ):
        super().__init__(config)
        self.hurried_by: int | None = None  # the second signal
        self._on_started = on_started
        self._on_stopping = on_stopping
        self._on_hurry = on_hurry

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        def handle(number: int, frame: FrameType | None) -> None:
            if not self.should_exit:
                self.should_exit = True
                self._on_stopping()
            elif self.hurried_by is None:
                self.hurried_by = number
                self._on_hurry()
                _end_process_in(HURRY_S, 128 + number)
            else:
                os._exit(128 + number)

        before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _end_process_in(seconds: float, status: int) -> None:
    """Whatever still holds it up then: a client that does not read, a long step, a full disk."""
    timer = threading.Timer(seconds, os._exit, (status,))
    timer.daemon = True
    timer.start()


def configure_logging(settings: Settings) -> None:
    """Log lines on stderr. uvicorn's own remarks on starting and stopping are left to us."""
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    for chatty in ("httpx", "httpcore", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


BACKLOG = 2048  # connections that may wait to be accepted


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError when another program listens there. Clients that come before
    the server runs wait in its backlog."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere this option would let two servers share the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)  # at once: two sockets may share an address until one of them does
    except OSError:
        listener.close()
        raise
    listener.set_inheritable(True)
    return listener


def build_server(
    app: Any,
    settings: Settings,
    *,
    on_started: Callable[[], None] = lambda: None,
    on_stopping: Callable[[], None] = lambda: None,
    on_hurry: Callable[[], None] = lambda: None,
) -> Server:
    """The server of `app`, ready for `run(sockets=[bind(...)])`."""
    config = uvicorn.Config(
        app,
        http=GuardedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,  # api/ writes that line, and knows how the request ended
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_TIMEOUT_S,
        timeout_graceful_shutdown=settings.shutdown_timeout_ms / 1000,  # type: ignore[arg-type]
    )
    return Server(config, on_started=on_started, on_stopping=on_stopping, on_hurry=on_hurry)
