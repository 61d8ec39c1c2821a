"""The HTTP server of `watch` and `serve`, over loopback sockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from icemirror.errors import Exit, Invalid, exit_code
from icemirror.http.page import render_page
from icemirror.http.routes import Endpoints
from icemirror.http.server import StatusServer, start_optional_server, start_server
from icemirror.settings.address import Address
from icemirror.telemetry.redaction import forget_secrets, register_secret

ANYWHERE = Address("127.0.0.1", 0)
TABLE = {"table": "shop.orders", "state": "idle", "lag": {"seconds": 0.0}, "error": None}

Reply = tuple[int, dict[str, str], str]
Request = Callable[..., Reply]


def endpoints(**changes: object) -> Endpoints:
    given = {"status": lambda: [TABLE], "metrics": lambda: b"merger_lag_seconds 1.0\n"} | changes
    return Endpoints(**given)  # type: ignore[arg-type]


def request(server: StatusServer, path: str, method: str = "GET", **headers: str) -> Reply:
    connection = http.client.HTTPConnection(server.address.host, server.address.port, timeout=5)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read().decode()
    finally:
        connection.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., StatusServer]]:
    servers: list[StatusServer] = []

    def start(address: Address = ANYWHERE, **changes: object) -> StatusServer:
        servers.append(start_server(address, endpoints(**changes)))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def test_every_documented_endpoint_responds(serve: Callable[..., StatusServer]) -> None:
    server = serve()
    assert request(server, "/healthz")[::2] == (200, "ok\n")
    assert request(server, "/readyz")[::2] == (200, "ready\n")
    status, headers, body = request(server, "/metrics")
    assert (status, body) == (200, "merger_lag_seconds 1.0\n")
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    status, headers, body = request(server, "/api/status?x=1")
    assert (status, json.loads(body), headers["content-type"]) == (200, [TABLE], "application/json")
    status, headers, body = request(server, "/")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert server.url == f"http://127.0.0.1:{server.address.port}/"


def test_other_paths_are_not_found_and_other_methods_are_refused(serve: Callable[..., StatusServer]) -> None:
    server = serve()
    for path in ("/favicon.ico", "/../etc/passwd", "/api", "/metrics/", "/%2e%2e/"):
        assert request(server, path)[0] == 404, path
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"):
        status, headers, _ = request(server, "/api/status", method)
        assert (status, headers["allow"]) == (405, "GET"), method


def test_readiness_is_checked_on_every_request_and_explained(
    serve: Callable[..., StatusServer],
) -> None:
    reasons = ["kafka: no broker responds to hunter2", ""]
    register_secret("hunter2")
    try:
        server = serve(unready=lambda: reasons.pop(0))
        status, _, body = request(server, "/readyz")
        assert (status, body) == (503, "not ready: kafka: no broker responds to ***\n")
        assert request(server, "/readyz")[0] == 200
    finally:
        forget_secrets()


def test_metrics_without_the_packages_return_a_remedy(serve: Callable[..., StatusServer]) -> None:
    status, _, body = request(serve(metrics=lambda: None), "/metrics")
    assert status == 503
    assert "icemirror[telemetry]" in body


def test_failing_endpoint_returns_500_without_details_and_the_server_continues(
    serve: Callable[..., StatusServer], caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> object:
        raise OSError("database password is hunter2")

    server = serve(status=fail)
    status, _, body = request(server, "/api/status")
    assert (status, body) == (500, "failed; see the log\n")
    assert request(server, "/healthz")[0] == 200
    assert "request failed" in caplog.text


def test_secrets_are_masked_in_the_status(serve: Callable[..., StatusServer]) -> None:
    register_secret('hun"ter2')
    try:
        server = serve(status=lambda: [{"table": "t", "error": {"message": 'refused: hun"ter2 is wrong'}}])
        assert json.loads(request(server, "/api/status")[2])[0]["error"]["message"] == "refused: *** is wrong"
    finally:
        forget_secrets()


def test_status_with_infinite_numbers_is_valid_json(
    serve: Callable[..., StatusServer],
) -> None:
    server = serve(status=lambda: [{"table": "t", "lag": {"seconds": float("inf")}}])
    assert "Infinity" not in request(server, "/api/status")[2]


def test_page_escapes_its_labels_and_loads_nothing_from_other_hosts() -> None:
    page = render_page(project_ref='<script>alert("x")</script>', environment="a&b")
    text = page.body.decode()
    assert "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; · a&amp;b" in text
    assert text.count("<script") == 1
    assert "{{" not in text
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?:https?:)?//""", text)
    assert "innerHTML" not in text
    assert "default-src 'none'" in page.content_security_policy
    assert "unsafe" not in page.content_security_policy


def test_page_accepts_every_state_that_it_colours() -> None:
    text = render_page(project_ref="p", environment="e").body.decode()
    coloured = set(re.findall(r"\.state\.([a-z-]+)", text))
    (pattern,) = re.findall(r"if \(/(\S+)/\.test\(t\.state\)\)", text)
    assert {"blocked", "needs-person", "quarantined", "waiting", "idle"} <= coloured
    assert [state for state in coloured if not re.fullmatch(pattern, state)] == []


def test_responses_cannot_be_framed_sniffed_or_cached(serve: Callable[..., StatusServer]) -> None:
    for path in ("/", "/api/status", "/metrics", "/nothing"):
        _, headers, _ = request(serve(), path)
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["server"].strip() == "icemirror"


def test_foreign_host_name_that_resolves_to_loopback_is_refused(serve: Callable[..., StatusServer]) -> None:
    server = serve()
    for path in ("/", "/api/status"):
        assert request(server, path, Host="attacker.example:9464")[0] == 403
        assert request(server, path, Host="")[0] == 403
        for name in ("localhost:1", "127.0.0.1", "[::1]:9464"):
            assert request(server, path, Host=name)[0] == 200, name
    assert request(server, "/metrics", Host="host.docker.internal:9464")[0] == 200


def test_body_of_a_get_is_not_parsed_as_a_second_request(serve: Callable[..., StatusServer]) -> None:
    server = serve()
    smuggled = b"GET /api/status HTTP/1.1\r\nHost: localhost\r\n\r\n"
    first = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(smuggled)
    with socket.create_connection((server.address.host, server.address.port), timeout=5) as connection:
        connection.sendall(first + smuggled)
        received = b""
        while chunk := connection.recv(4096):
            received += chunk
    assert received.count(b"HTTP/1.1 ") == 1


def test_silent_connections_use_a_bounded_number_of_threads(
    serve: Callable[..., StatusServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("icemirror.http.server.MAX_CONNECTIONS", 3)
    server = serve()
    address = (server.address.host, server.address.port)
    before = threading.active_count()
    with contextlib.ExitStack() as silent:
        for _ in range(10):
            silent.enter_context(socket.create_connection(address, timeout=5))
            assert request(server, "/healthz")[0] == 200, "a silent client does not block others"
        assert threading.active_count() <= before + 4


def test_port_in_use_is_reported_with_a_remedy(serve: Callable[..., StatusServer]) -> None:
    used = serve().address
    with pytest.raises(
        Invalid, match=rf"cannot listen on {used}: port {used.port} is in use.*--http"
    ) as caught:
        start_server(used, endpoints())
    assert exit_code(caught.value) == Exit.BLOCKED


def test_default_address_in_use_only_logs_a_warning(
    serve: Callable[..., StatusServer], caplog: pytest.LogCaptureFixture
) -> None:
    assert start_optional_server(serve().address, endpoints()) is None
    assert "status page and metrics disabled" in caplog.text


@pytest.mark.parametrize(
    ("host", "reason"),
    [("no-such-host.invalid", "unknown host"), ("192.0.2.1", "not an address of this machine")],
)
def test_other_listen_failures_are_reported(host: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        start_server(Address(host, 0), endpoints())


def test_port_is_free_after_close() -> None:
    server = start_server(ANYWHERE, endpoints())
    request(server, "/healthz")
    server.close()
    again = start_server(server.address, endpoints())
    again.close()


def test_ipv6_loopback_is_supported(serve: Callable[..., StatusServer]) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    assert request(serve(Address("::1", 0)), "/healthz")[0] == 200
