"""An HTTP proxy that breaks what passes through it, by a plan that a seed decides.

It stands before a catalog or an object store, forwards requests as they are (signatures stay valid, because the
`Host` that the client signed is forwarded too), and does one of the following instead where the plan says so.
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
    """What can happen to a request."""

    BEFORE = "answered with an error, never forwarded"
    AFTER = "forwarded, answered with an error"
    CUT = "forwarded, answered with silence"
    TRUNCATE = "forwarded, half of the answer"
    DELAY = "forwarded late"


@dataclass(frozen=True)
class Trouble:
    """A fault, and the status of the answer where there is one."""

    fault: Fault
    status: int = 500


@dataclass
class Plan:
    """Which requests are in trouble: a share of those of each method.

    One that is stays so for its next repetitions, because clients try again by themselves.
    """

    seed: int
    rates: Mapping[str, float]
    status: tuple[int, ...] = _STATUS
    most_repetitions: int = 6
    seen: Counter[str] = field(default_factory=Counter)
    healed: bool = False

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._lock = threading.Lock()
        self._lasting: dict[tuple[str, str], tuple[Trouble, int]] = {}

    def heal(self) -> None:
        """From now on everything passes."""
        self.healed = True

    def trouble(self, method: str, path: str) -> Trouble | None:
        """What happens to this request."""
        with self._lock:
            if self.healed:
                return None
            what = method, path.split("?")[0]
            trouble, left = self._lasting.pop(what, (None, 0))
            if trouble is None:
                if self._dice.random() >= self.rates.get(method, 0.0):
                    return None
                trouble = Trouble(self._dice.choice(list(Fault)), self._dice.choice(self.status))
                left = self._dice.randint(0, self.most_repetitions)
            if left:
                self._lasting[what] = trouble, left - 1
            self.seen[trouble.fault.name] += 1
            return trouble


@dataclass(frozen=True)
class Request:
    """What a client asks for."""

    method: str
    path: str
    headers: Message
    body: bytes


Refuse = Callable[[Request], tuple[int, bytes] | None]
"""Looks at a request, and may answer it itself."""
Rewrite = Callable[[str, bytes], bytes]
"""The body of an answer to this path, changed."""


@dataclass
class FaultProxy:
    """A running one."""

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
    """A proxy before a server on this machine."""
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
        """A client that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultProxy
    upstream_port: int
    wbufsize = -1  # an answer leaves in few packets
    disable_nagle_algorithm = True

    def _serve(self) -> None:
        body = self._body()
        proxy = self.proxy
        request = Request(self.command, self.path, self.headers, body)
        if proxy.refuse and (refused := proxy.refuse(request)):
            self._answer(refused[0], [("Content-Type", "application/xml")], refused[1])
            return
        trouble = proxy.plan.trouble(self.command, self.path) if proxy.plan else None
        if trouble and trouble.fault is Fault.BEFORE:
            self._refuse(trouble.status)
            return
        if trouble and trouble.fault is Fault.DELAY:
            time.sleep(_DELAY_SECONDS)
        status, headers, answer = self._forward(body)
        if proxy.rewrite and status == http.client.OK:
            answer = proxy.rewrite(self.path, answer)
        match trouble.fault if trouble else None:
            case Fault.AFTER:
                self._refuse(trouble.status if trouble else 0)
            case Fault.CUT:
                self._hang_up()
            case Fault.TRUNCATE if len(answer) > 1:
                self._answer(status, headers, answer, sent=len(answer) // 2)
                self._hang_up()
            case _:
                self._answer(status, headers, answer)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815 (names of the standard library)

    def handle_expect_100(self) -> bool:
        """Clients wait a second for this line before they send a body."""
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
            answer = response.read()
            headers = [(name, value) for name, value in response.getheaders() if name.lower() not in _HOP]
            if self.command == "HEAD":
                headers.append(("Content-Length", response.getheader("Content-Length") or "0"))
            return response.status, headers, answer
        finally:
            upstream.close()

    def _answer(
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

    def _refuse(self, status: int) -> None:
        """An error as this kind of server words it: S3 in XML, catalogs in JSON."""
        if "x-amz-content-sha256" in self.headers and "x-amz-target" not in self.headers:
            words = f"<?xml version='1.0'?><Error><Code>{_S3_CODES[status]}</Code><Message>planned</Message></Error>"
            kind = "application/xml"
        elif "x-amz-target" in self.headers:
            words = '{"__type": "InternalServiceException", "message": "planned"}'
            kind = "application/x-amz-json-1.1"
        else:
            words = f'{{"error": {{"message": "planned", "type": "PlannedFault", "code": {status}}}}}'
            kind = "application/json"
        self._answer(status, [("Content-Type", kind)], words.encode())

    def _hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the standard library's name)
        """The plan says what happened."""


_S3_CODES = {
    409: "OperationAborted",
    429: "TooManyRequests",
    500: "InternalError",
    503: "SlowDown",
    504: "GatewayTimeout",
}
