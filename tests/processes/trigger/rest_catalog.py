"""A small REST catalog over HTTP: tables are given, requests are recorded, faults can be injected."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


class RestCatalog:
    """`tables`: metadata location by (namespace, name)."""

    def __init__(self) -> None:
        self.tables: dict[tuple[str, str], str] = {}
        self.prefix = ""
        self.tokens: list[str] = []
        self.needs_token = False
        self.fails_with: int | None = None
        self.etags = False
        self.page_size = 100
        self.loops_at: int | None = None
        self.requests: list[str] = []
        self.forms: list[dict[str, list[str]]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""

    def answer(self, method: str, path: str, headers: dict[str, str], body: str) -> tuple[int, object, str]:
        self.requests.append(path)
        self.headers.append(headers)
        parts = urlsplit(path)
        if self.fails_with:
            return self.fails_with, {}, ""
        if method == "POST" and parts.path == "/v1/oauth/tokens":
            self.forms.append(parse_qs(body))
            self.tokens.append(f"token-{len(self.tokens)}")
            return 200, {"access_token": self.tokens[-1]}, ""
        if self.needs_token and headers.get("Authorization") != f"Bearer {(self.tokens or ['none'])[-1]}":
            return 401, {}, ""
        if parts.path == "/v1/config":
            return 200, {"defaults": {}, "overrides": {"prefix": self.prefix} if self.prefix else {}}, ""
        base = f"/v1/{self.prefix}/namespaces/" if self.prefix else "/v1/namespaces/"
        if not parts.path.startswith(base):
            return 404, {}, ""
        namespace, _, rest = parts.path.removeprefix(base).partition("/tables")
        return self._table(unquote(namespace), unquote(rest.strip("/")), headers, parts.query)

    def _table(
        self, namespace: str, name: str, headers: dict[str, str], query: str
    ) -> tuple[int, object, str]:
        if not name:
            names = sorted(table for levels, table in self.tables if levels == namespace)
            at = int((parse_qs(query).get("pageToken") or ["0"])[0])
            page = [{"namespace": namespace, "name": table} for table in names[at : at + self.page_size]]
            more = str(at + self.page_size) if at + self.page_size < len(names) else None
            more = "2" if at == self.loops_at else more
            return (200, {"identifiers": page, "next-page-token": more}, "") if names else (404, {}, "")
        location = self.tables.get((namespace, name))
        if location is None:
            return 404, {}, ""
        etag = f'"{location}"' if self.etags else ""
        if etag and headers.get("If-None-Match") == etag:
            return 304, None, etag
        return 200, {"metadata-location": location, "metadata": {}}, etag


@contextmanager
def running_server(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve HTTP on a free port; yield the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def serve() -> Iterator[RestCatalog]:
    catalog = RestCatalog()

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length).decode()
            status, value, etag = catalog.answer(self.command, self.path, dict(self.headers), body)
            content = b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            if etag:
                self.send_header("ETag", etag)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _reply  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with running_server(Handler) as catalog.url:
        yield catalog
