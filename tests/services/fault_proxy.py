"""An HTTP proxy that injects faults into requests, according to a seeded plan.

It runs in front of a catalog or an object store and forwards requests unchanged. Signatures stay valid, because the
`Host` header that the client signed is forwarded too. Where the plan schedules a fault, it injects one of `Fault`.
"""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.services.processes import HOST

_HOP = {"connection", "transfer-encoding", "keep-alive", "content-length"}
_STATUS = (409, 429, 500, 503, 504)
_DELAY_SECONDS = 0.3
_UPSTREAM_SECONDS = 60.0


class Fault(StrEnum):
    """The kinds of faults of a request."""

    BEFORE = "error response, not forwarded"
    AFTER = "forwarded, error response"
    CUT = "forwarded, no response"
    TRUNCATE = "forwarded, half of the response"
    DELAY = "forwarded late"


@dataclass(frozen=True)
class PlannedFault:
    """A fault, and the HTTP status of the response if there is one."""

    fault: Fault
    status: int = 500


@dataclass
class Plan:
    """Decides which requests fail: a rate per HTTP method.

    A fault also hits the next repetitions of its request, because clients retry on their own.
    """

    seed: int
    rates: Mapping[str, float]
    status: tuple[int, ...] = _STATUS
    max_repetitions: int = 6
    seen: Counter[str] = field(default_factory=Counter)
    disabled: bool = False

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._lock = threading.Lock()
        self._repeating: dict[tuple[str, str], tuple[PlannedFault, int]] = {}

    def disable(self) -> None:
        """Let all further requests pass."""
        self.disabled = True

    def next_fault(self, method: str, path: str) -> PlannedFault | None:
        """Return the fault of this request, or None."""
        with self._lock:
            if self.disabled:
                return None
            request = method, path.split("?")[0]
            planned, repetitions = self._repeating.pop(request, (None, 0))
            if planned is None:
                if self._rng.random() >= self.rates.get(method, 0.0):
                    return None
                planned = PlannedFault(self._rng.choice(list(Fault)), self._rng.choice(self.status))
                repetitions = self._rng.randint(0, self.max_repetitions)
            if repetitions:
                self._repeating[request] = planned, repetitions - 1
            self.seen[planned.fault.name] += 1
            return planned


@dataclass(frozen=True)
class Request:
    """A request of a client."""

    method: str
    path: str
    headers: Message
    body: bytes


Refuse = Callable[[Request], tuple[int, bytes] | None]
"""Inspects a request; returns a response in place of the server's, or None."""
Rewrite = Callable[[str, bytes], bytes]
"""Returns a changed response body for this path."""


@dataclass
class FaultProxy:
    """A running proxy."""

    port: int
    plan: Plan | None = None
    refuse: Refuse | None = None
    rewrite: Rewrite | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"


@contextmanager
def fault_proxy(
    upstream_port: int, plan: Plan | None = None, refuse: Refuse | None = None, rewrite: Rewrite | None = None
) -> Iterator[FaultProxy]:
    """Run a proxy in front of a local server."""
    proxy = FaultProxy(0, plan, refuse, rewrite)
    handler = type("Handler", (_Handler,), {"proxy": proxy, "upstream_port": upstream_port})
    server = _Server((HOST, 0), handler)
    proxy.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close the connection."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultProxy
    upstream_port: int
    wbufsize = -1  # send a response in few packets
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        body = self._body()
        proxy = self.proxy
        request = Request(self.command, self.path, self.headers, body)
        if proxy.refuse and (refused := proxy.refuse(request)):
            self._respond(refused[0], [("Content-Type", "application/xml")], refused[1])
            return
        planned = proxy.plan.next_fault(self.command, self.path) if proxy.plan else None
        if planned and planned.fault is Fault.BEFORE:
            self._respond_error(planned.status)
            return
        if planned and planned.fault is Fault.DELAY:
            time.sleep(_DELAY_SECONDS)
        status, headers, response_body = self._forward(body)
        if proxy.rewrite and status == http.client.OK:
            response_body = proxy.rewrite(self.path, response_body)
        match planned.fault if planned else None:
            case Fault.AFTER:
                self._respond_error(planned.status if planned else 0)
            case Fault.CUT:
                self._hang_up()
            case Fault.TRUNCATE if len(response_body) > 1:
                self._respond(status, headers, response_body, sent=len(response_body) // 2)
                self._hang_up()
            case _:
                self._respond(status, headers, response_body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815 (names of the standard library)

    def handle_expect_100(self) -> bool:
        """Send the line for which clients wait up to a second before they send a body."""
        self.send_response_only(http.client.CONTINUE)
        self.end_headers()
        self.wfile.flush()
        return True

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts: list[bytes] = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = http.client.HTTPConnection(HOST, self.upstream_port, timeout=_UPSTREAM_SECONDS)
        try:
            upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            dropped = _HOP | {"expect"} | ({"accept-encoding"} if self.proxy.rewrite else set())
            for name, value in self.headers.items():
                if name.lower() not in dropped:
                    upstream.putheader(name, value)
            upstream.putheader("Content-Length", str(len(body)))
            upstream.endheaders(body)
            response = upstream.getresponse()
            response_body = response.read()
            headers = [(name, value) for name, value in response.getheaders() if name.lower() not in _HOP]
            if self.command == "HEAD":
                headers.append(("Content-Length", response.getheader("Content-Length") or "0"))
            return response.status, headers, response_body
        finally:
            upstream.close()

    def _respond(
        self, status: int, headers: list[tuple[str, str]], body: bytes, sent: int | None = None
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD" and status != http.client.NO_CONTENT:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:sent])
        self.wfile.flush()

    def _respond_error(self, status: int) -> None:
        """Respond with an error in the server's format: S3 in XML, catalogs in JSON."""
        if "x-amz-content-sha256" in self.headers and "x-amz-target" not in self.headers:
            text = f"<?xml version='1.0'?><Error><Code>{_S3_CODES[status]}</Code><Message>planned</Message></Error>"
            content_type = "application/xml"
        elif "x-amz-target" in self.headers:
            text = '{"__type": "InternalServiceException", "message": "planned"}'
            content_type = "application/x-amz-json-1.1"
        else:
            text = f'{{"error": {{"message": "planned", "type": "PlannedFault", "code": {status}}}}}'
            content_type = "application/json"
        self._respond(status, [("Content-Type", content_type)], text.encode())

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the standard library's name)
        """Log nothing; the plan counts the faults."""


_S3_CODES = {
    409: "OperationAborted",
    429: "TooManyRequests",
    500: "InternalError",
    503: "SlowDown",
    504: "GatewayTimeout",
}
