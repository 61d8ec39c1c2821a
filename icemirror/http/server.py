"""The HTTP server of `watch` and `serve`: status page, status as JSON, metrics, health, and hints by POST."""

from __future__ import annotations

import errno
import socket
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from icemirror.errors import Invalid
from icemirror.http.page import render_page
from icemirror.http.routes import Endpoints, HttpPost, HttpResponse, respond
from icemirror.settings.address import Address
from icemirror.telemetry.logs import get_log

log = get_log(__name__)

REQUEST_TIMEOUT_SECONDS = 15
_FREE_THREAD_SECONDS = 1.0
MAX_CONNECTIONS = 64
_MAX_DISCARDED_BYTES = 16 * 1024 * 1024
_DISCARD_SECONDS = 5.0
_CHUNK_BYTES = 65_536


class StatusServer:
    """A server that runs in background threads until `close`."""

    def __init__(self, server: _Server, address: Address) -> None:
        self.address = address
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="http", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        return f"http://{self.address}/"

    def close(self) -> None:
        """Stop the server and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def start_server(address: Address, endpoints: Endpoints) -> StatusServer:
    """Start a server on a configured address; raise `Invalid` if that fails."""
    try:
        server = _Server(address, endpoints)
    except OSError as error:
        raise Invalid(f"cannot listen on {address}: {_describe_bind_error(error, address)}") from error
    return StatusServer(server, Address(address.host, server.server_address[1]))


def start_optional_server(address: Address, endpoints: Endpoints) -> StatusServer | None:
    """Start a server on the default address; if that fails, log it and return None."""
    try:
        return start_server(address, endpoints)
    except Invalid as error:
        log.warning("status page and metrics disabled", reason=str(error))
        return None


def _describe_bind_error(error: OSError, address: Address) -> str:
    match error:
        case socket.gaierror():
            return f"unknown host {address.host!r}; use 127.0.0.1 for this machine or 0.0.0.0 for every interface"
        case OSError(errno=errno.EADDRINUSE):
            return (
                f"port {address.port} is in use, perhaps by another icemirror; choose another port "
                "with --http HOST:PORT or telemetry.prometheus, or stop the other process"
            )
        case OSError(errno=errno.EACCES):
            return f"no permission for port {address.port}; choose one above 1023"
        case OSError(errno=errno.EADDRNOTAVAIL):
            return f"{address.host} is not an address of this machine; 127.0.0.1 always is"
        case _:
            return error.strerror or str(error)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: Address, endpoints: Endpoints) -> None:
        self.endpoints = endpoints
        self.page = render_page(project_ref=endpoints.project_ref, environment=endpoints.environment)
        self.only_local_names = address.is_loopback
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._free_threads = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._open_connections: dict[socket.socket, None] = {}  # oldest first
        super().__init__((address.host, address.port), _Handler)

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """Use one thread per connection; at the limit, close the oldest connection."""
        if not self._free_threads.acquire(blocking=False):
            self._close_oldest()
            if not self._free_threads.acquire(timeout=_FREE_THREAD_SECONDS):
                self.shutdown_request(request)
                return
        self._open_connections[request] = None
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._remove_connection(request)
            raise

    def process_request_thread(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """Process the request in its thread, then free the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._remove_connection(request)

    def _remove_connection(self, request: socket.socket) -> None:
        self._open_connections.pop(request, None)
        self._free_threads.release()

    def _close_oldest(self) -> None:
        """Close the oldest connection, so that slow clients cannot block others."""
        with suppress(OSError, StopIteration, RuntimeError):
            next(iter(self._open_connections)).shutdown(socket.SHUT_RDWR)

    def server_bind(self) -> None:
        """Bind without resolving the host's full name, which can take seconds and is needed only for CGI."""
        socket.socket.setsockopt(self.socket, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a browser that closed the connection."""
        log.debug("request aborted")


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_TIMEOUT_SECONDS
    server_version = "icemirror"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Respond, also after an unexpected error."""
        path = urlsplit(self.path).path
        if {"Content-Length", "Transfer-Encoding"} & set(self.headers):
            self.close_connection = True  # an unexpected body must not be parsed as the next request
        if path in ("/", "/api/status") and not self._has_local_host():
            self._send(HttpResponse(HTTPStatus.FORBIDDEN, b"use the address that the server listens on\n"))
            return
        try:
            response = respond(self.path, self.server.endpoints, self.server.page)
        except Exception as error:
            log.failure("request failed", error, path=path)
            response = HttpResponse(HTTPStatus.INTERNAL_SERVER_ERROR, b"failed; see the log\n")
        self._send(response)

    def do_POST(self) -> None:
        """Serve `/notify` if it is enabled; everything else is read-only."""
        notify = self.server.endpoints.notify
        if notify is None or urlsplit(self.path).path != "/notify":
            self._refuse()
            return
        # Any web page can make a browser send requests here, but it cannot hide its origin.
        if "Origin" in self.headers or not self._has_local_host():
            self.close_connection = True
            self._send(
                HttpResponse(
                    HTTPStatus.FORBIDDEN,
                    b"not allowed from a browser; use the address that the server listens on\n",
                )
            )
            return
        length = self._length()
        unread = length or 0

        def read() -> bytes:
            nonlocal unread
            unread = 0
            return self.rfile.read(length or 0)

        post = HttpPost(self.headers.get("Authorization", ""), length, read)
        try:
            response = notify(post)
        except Exception as error:
            log.failure("request failed", error, path="/notify")
            response = HttpResponse(HTTPStatus.INTERNAL_SERVER_ERROR, b"failed; see the log\n")
        if response.status >= HTTPStatus.BAD_REQUEST:
            self.close_connection = True  # the body may be unread
            self._discard(unread)
        self._send(response)

    def _discard(self, size: int) -> None:
        """Read and drop the rest of the body, within limits: a client that is still sending would miss the response."""
        deadline = time.monotonic() + _DISCARD_SECONDS
        while 0 < size <= _MAX_DISCARDED_BYTES and time.monotonic() < deadline:
            read_bytes = len(self.rfile.read1(min(size, _CHUNK_BYTES)))
            size = size - read_bytes if read_bytes else 0

    def _length(self) -> int | None:
        """Return the length of the body; None if it is missing or not a plain number."""
        text = self.headers.get("Content-Length", "")
        is_plain_number = (
            "Transfer-Encoding" not in self.headers and text.isascii() and text.isdecimal() and len(text) < 10
        )
        return int(text) if is_plain_number else None

    def _refuse(self) -> None:
        self.close_connection = True  # a body is not read
        self._send(HttpResponse(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET\n"), allow="GET")

    do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_HEAD = do_TRACE = do_CONNECT = _refuse  # noqa: N815

    def _has_local_host(self) -> bool:
        """Return whether the Host header is local; on other addresses than loopback every host is allowed."""
        if not self.server.only_local_names:  # (a page may resolve its name to 127.0.0.1: DNS rebinding)
            return True
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        return host is not None and Address(host, 0).is_loopback

    def _send(self, response: HttpResponse, allow: str | None = None) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", response.content_security_policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        if allow:
            self.send_header("Allow", allow)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is the base class's)
        """Log nothing per request."""
