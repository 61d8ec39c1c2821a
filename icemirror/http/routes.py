"""The routes of the HTTP server: what `GET` returns for each path."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from icemirror.http.page import Page
from icemirror.telemetry.redaction import redact, redact_tree

Status = Sequence[Mapping[str, object]]

PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
TEXT = "text/plain; charset=utf-8"


def always_healthy() -> bool:
    """Return True, for a service without a health check."""
    return True


def always_ready() -> str:
    """Return no reason, for a service that is ready from the start."""
    return ""


@dataclass(frozen=True, slots=True)
class HttpPost:
    """A POST request. Its body is read only if the handler calls `read`."""

    authorization: str
    length: int | None
    read: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The response to a request."""

    status: HTTPStatus
    body: bytes
    content_type: str = TEXT
    content_security_policy: str = "default-src 'none'; frame-ancestors 'none'"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The functions behind the endpoints. `unready`: why the service is not ready; empty if it is."""

    status: Callable[[], Status]
    metrics: Callable[[], bytes | None]
    unready: Callable[[], str] = always_ready
    healthy: Callable[[], bool] = always_healthy
    notify: Callable[[HttpPost], HttpResponse] | None = None
    project_ref: str = "icemirror"
    environment: str = "dev"


def respond(path: str, endpoints: Endpoints, page: Page) -> HttpResponse:
    """Return the response to `GET path`."""
    match urlsplit(path).path:
        case "/":
            return HttpResponse(
                HTTPStatus.OK, page.body, "text/html; charset=utf-8", page.content_security_policy
            )
        case "/api/status":
            tables = [redact_tree(table) for table in endpoints.status()]
            return HttpResponse(HTTPStatus.OK, json.dumps(tables).encode(), "application/json")
        case "/metrics":
            text = endpoints.metrics()
            if text is None:
                return HttpResponse(
                    HTTPStatus.SERVICE_UNAVAILABLE, b"no metrics: install icemirror[telemetry]\n"
                )
            return HttpResponse(HTTPStatus.OK, text, PROMETHEUS_TEXT)
        case "/healthz":
            if endpoints.healthy():
                return HttpResponse(HTTPStatus.OK, b"ok\n")
            return HttpResponse(HTTPStatus.SERVICE_UNAVAILABLE, b"a component hangs; see the log\n")
        case "/readyz":
            if reason := endpoints.unready():
                return HttpResponse(HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {redact(reason)}\n".encode())
            return HttpResponse(HTTPStatus.OK, b"ready\n")
        case _:
            return HttpResponse(HTTPStatus.NOT_FOUND, b"not found\n")
