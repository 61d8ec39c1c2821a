"""The small web server of `watch` and `serve`: status page, status as JSON, metrics, health, and notices by POST."""

from __future__ import annotations

import errno
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from icemirror.errors import Invalid
from icemirror.settings.address import Address
from icemirror.telemetry.logs import get_log
from icemirror.telemetry.page import Page, render_page
from icemirror.telemetry.redaction import redact, redact_tree

log = get_log(__name__)

Status = Sequence[Mapping[str, object]]

REQUEST_TIMEOUT_SECONDS = 15
_ROOM_SECONDS = 1.0
MOST_CONNECTIONS = 64
_MOST_DISCARDED = 16 * 1024 * 1024
_DISCARD_SECONDS = 5.0
_PORTION = 65_536
PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
TEXT = "text/plain; charset=utf-8"


def _always() -> bool:
    return True


def _nothing() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Post:
    """A body that somebody sends. It is read only if whoever answers asks for it."""

    authorization: str
    length: int | None
    read: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the answers come from. `unready`: why it cannot work now; empty if it can."""

    status: Callable[[], Status]
    metrics: Callable[[], bytes | None]
    unready: Callable[[], str] = _nothing
    healthy: Callable[[], bool] = _always
    notify: Callable[[Post], Answer] | None = None
    project_ref: str = "icemirror"
    environment: str = "dev"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request gets."""

    status: HTTPStatus
    body: bytes
    content_type: str = TEXT
    content_security_policy: str = "default-src 'none'; frame-ancestors 'none'"


def answer(path: str, sources: Sources, page: Page) -> Answer:
    """The answer to `GET path`."""
    match urlsplit(path).path:
        case "/":
            return Answer(HTTPStatus.OK, page.body, "text/html; charset=utf-8", page.content_security_policy)
        case "/api/status":
            tables = [redact_tree(table) for table in sources.status()]
            return Answer(HTTPStatus.OK, json.dumps(tables).encode(), "application/json")
        case "/metrics":
            text = sources.metrics()
            if text is None:
                return Answer(HTTPStatus.SERVICE_UNAVAILABLE, b"no metrics: install icemirror[telemetry]\n")
            return Answer(HTTPStatus.OK, text, PROMETHEUS_TEXT)
        case "/healthz":
            if sources.healthy():
                return Answer(HTTPStatus.OK, b"ok\n")
            return Answer(HTTPStatus.SERVICE_UNAVAILABLE, b"a part hangs; the log says which\n")
        case "/readyz":
            if why := sources.unready():
                return Answer(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {redact(why)}\n".encode())
            return Answer(HTTPStatus.OK, b"ready\n")
        case _:
            return Answer(HTTPStatus.NOT_FOUND, b"not found\n")


class StatusServer:
    """A server at work in threads of its own, until `close`."""

    def __init__(self, server: _Server, address: Address) -> None:
        self.address = address
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="http", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """What a person opens."""
        return f"http://{self.address}/"

    def close(self) -> None:
        """Stop answering and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def start_server(address: Address, sources: Sources) -> StatusServer:
    """Listen on an address that was asked for; `Invalid` where that cannot be."""
    try:
        server = _Server(address, sources)
    except OSError as error:
        raise Invalid(f"cannot listen on {address}: {_reason(error, address)}") from error
    return StatusServer(server, Address(address.host, server.server_address[1]))


def start_optional_server(address: Address, sources: Sources) -> StatusServer | None:
    """Listen on an address that nobody chose; where that cannot be, say so and go on without it."""
    try:
        return start_server(address, sources)
    except Invalid as error:
        log.warning("going on without status page and metrics", reason=str(error))
        return None


def _reason(error: OSError, address: Address) -> str:
    match error:
        case socket.gaierror():
            return f"there is no host {address.host!r}; 127.0.0.1 is this machine, 0.0.0.0 every interface"
        case OSError(errno=errno.EADDRINUSE):
            return (
                f"port {address.port} is in use, perhaps by another icemirror; choose another one "
                "with --http HOST:PORT or telemetry.prometheus, or stop the other process"
            )
        case OSError(errno=errno.EACCES):
            return f"port {address.port} needs more rights; choose one above 1023"
        case OSError(errno=errno.EADDRNOTAVAIL):
            return f"{address.host} is no address of this machine; 127.0.0.1 always is"
        case _:
            return error.strerror or str(error)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: Address, sources: Sources) -> None:
        self.sources = sources
        self.page = render_page(project_ref=sources.project_ref, environment=sources.environment)
        self.only_local_names = address.is_loopback
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._open: dict[socket.socket, None] = {}  # the oldest first
        super().__init__((address.host, address.port), _Handler)

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """A thread for each connection, but not for any number of them: the oldest makes room."""
        if not self._free.acquire(blocking=False):
            self._end_oldest()
            if not self._free.acquire(timeout=_ROOM_SECONDS):
                self.shutdown_request(request)
                return
        self._open[request] = None
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._forget(request)
            raise

    def process_request_thread(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """As the base class does it, in the thread; then the next one may come."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, request: socket.socket) -> None:
        self._open.pop(request, None)
        self._free.release()

    def _end_oldest(self) -> None:
        """Somebody who sends a byte now and then must not keep the others out."""
        with suppress(OSError, StopIteration, RuntimeError):
            next(iter(self._open)).shutdown(socket.SHUT_RDWR)

    def server_bind(self) -> None:
        """Without the look-up of the host's full name, which can take seconds and serves only CGI."""
        socket.socket.setsockopt(self.socket, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that went away is no error of ours."""
        log.debug("a request ended early")


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_TIMEOUT_SECONDS
    server_version = "icemirror"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer, whatever happens."""
        path = urlsplit(self.path).path
        if {"Content-Length", "Transfer-Encoding"} & set(self.headers):
            self.close_connection = True  # a body nobody asked for must not pass for the next request
        if path in ("/", "/api/status") and not self._is_asked_by_its_own_name():
            self._send(Answer(HTTPStatus.FORBIDDEN, b"open this by the address that it listens on\n"))
            return
        try:
            reply = answer(self.path, self.server.sources, self.server.page)
        except Exception as error:
            log.failure("request failed", error, path=path)
            reply = Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"failed; the log says why\n")
        self._send(reply)

    def do_POST(self) -> None:
        """`/notify`, where somebody takes notices; all else is read-only."""
        notify = self.server.sources.notify
        if notify is None or urlsplit(self.path).path != "/notify":
            self._refuse()
            return
        # A page that a browser shows may send here without being asked; it cannot hide where it is from.
        if "Origin" in self.headers or not self._is_asked_by_its_own_name():
            self.close_connection = True
            self._send(
                Answer(HTTPStatus.FORBIDDEN, b"not from a browser, and by the address that it listens on\n")
            )
            return
        length = self._length()
        unread = length or 0

        def read() -> bytes:
            nonlocal unread
            unread = 0
            return self.rfile.read(length or 0)

        post = Post(self.headers.get("Authorization", ""), length, read)
        try:
            reply = notify(post)
        except Exception as error:
            log.failure("request failed", error, path="/notify")
            reply = Answer(HTTPStatus.INTERNAL_SERVER_ERROR, b"failed; the log says why\n")
        if reply.status >= HTTPStatus.BAD_REQUEST:
            self.close_connection = True  # its body may not have been read
            self._discard(unread)
        self._send(reply)

    def _discard(self, size: int) -> None:
        """Reads what nobody wants, within bounds: who still sends when the connection ends never hears the answer."""
        until = time.monotonic() + _DISCARD_SECONDS
        while 0 < size <= _MOST_DISCARDED and time.monotonic() < until:
            got = len(self.rfile.read1(min(size, _PORTION)))
            size = size - got if got else 0

    def _length(self) -> int | None:
        """The length of the body, where it is given plainly."""
        text = self.headers.get("Content-Length", "")
        plain = (
            "Transfer-Encoding" not in self.headers and text.isascii() and text.isdecimal() and len(text) < 10
        )
        return int(text) if plain else None

    def _refuse(self) -> None:
        self.close_connection = True  # whatever body comes with it is not read
        self._send(Answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET\n"), allow="GET")

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_HEAD = do_TRACE = do_CONNECT = _refuse  # noqa: N815

    def _is_asked_by_its_own_name(self) -> bool:
        """On loopback only local names: a page elsewhere may point its own name at 127.0.0.1 to read ours."""
        if not self.server.only_local_names:
            return True
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        return host is not None and Address(host, 0).is_loopback

    def _send(self, reply: Answer, allow: str | None = None) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", reply.content_security_policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        if allow:
            self.send_header("Allow", allow)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is the base class's)
        """Requests are not worth a line each."""
