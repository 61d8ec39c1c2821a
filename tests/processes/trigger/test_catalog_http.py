"""HTTP requests to a REST catalog: bounded in time and size, and the token stays with its origin."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest

from tests.processes.trigger.rest_catalog import running_server
from trigger.heads import http
from trigger.heads.http import HttpError, send_request

TOKEN = {"Authorization": "Bearer secret"}
Respond = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """Records requests; `respond` answers them."""

    def __init__(self, respond: Respond) -> None:
        self.respond, self.requests, self.url = respond, list[tuple[str, str, dict[str, str]]](), ""


@contextmanager
def serving(respond: Respond) -> Iterator[Server]:
    server = Server(respond)

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            server.requests.append((self.command, self.path, dict(self.headers)))
            server.respond(self)

        do_GET = do_POST = _reply  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with running_server(Handler) as server.url:
        yield server


def reply(status: int, body: bytes = b"{}", **headers: str) -> Respond:
    sent = {"Content-Length": str(len(body))} | {
        name.replace("_", "-"): value for name, value in headers.items()
    }

    def respond(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in sent.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return respond


def redirect(location: str, status: int = 302) -> Respond:
    return reply(status, b"", Location=location)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_within_the_origin_is_followed_with_the_token(status: int) -> None:
    with serving(reply(200, b'{"a": 1}', ETag='"1"')) as server:

        def redirect_once(handler: BaseHTTPRequestHandler) -> None:
            server.respond = reply(200, b'{"a": 1}', ETag='"1"')
            redirect("/moved", status)(handler)

        server.respond = redirect_once
        answer = send_request(f"{server.url}/v1/config", TOKEN)
    assert (answer.json(), answer.etag) == ({"a": 1}, '"1"')
    assert [(path, headers["Authorization"]) for _, path, headers in server.requests] == [
        ("/v1/config", "Bearer secret"),
        ("/moved", "Bearer secret"),
    ]


def test_redirect_to_another_origin_is_not_followed() -> None:
    with serving(reply(200)) as other, serving(redirect(f"{other.url}/steal")) as server:
        with pytest.raises(HttpError, match="another origin") as refused:
            send_request(server.url, TOKEN)
        assert refused.value.status == 302
    assert other.requests == [], "the token never left its origin"


def test_redirected_form_is_not_sent_again() -> None:
    with serving(redirect("/elsewhere")) as server, pytest.raises(HttpError, match="302"):
        send_request(server.url, {}, {"client_secret": "s"})
    assert len(server.requests) == 1


def test_redirect_loop_ends() -> None:
    with serving(redirect("/again")) as server, pytest.raises(HttpError, match="redirects"):
        send_request(server.url, TOKEN)
    assert len(server.requests) == 10


def test_form_is_posted_url_encoded() -> None:
    with serving(reply(200)) as server:
        send_request(server.url, {"X-Tenant": "a"}, {"scope": "all of it"})
    ((method, _, headers),) = server.requests
    assert (method, headers["Content-Type"]) == ("POST", "application/x-www-form-urlencoded")
    assert headers["X-Tenant"] == "a"


def test_unchanged_answer_has_no_content() -> None:
    with serving(reply(304, b"")) as server:
        assert (send_request(server.url, {}).status, send_request(server.url, {}).json()) == (304, {})


def test_large_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MAX_BYTES", 1 << 20)
    with (
        serving(reply(200, b" " * ((1 << 20) + 1))) as server,
        pytest.raises(HttpError, match="more than 1 MB"),
    ):
        send_request(server.url, {})
    with serving(reply(200, b" " * (1 << 20))) as server:
        assert len(send_request(server.url, {}).body) == 1 << 20


def test_compressed_answer_is_bounded_by_its_decompressed_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MAX_BYTES", 1 << 20)
    bomb = gzip.compress(b" " * (64 << 20))
    assert len(bomb) < 1 << 17
    with (
        serving(reply(200, bomb, Content_Encoding="gzip")) as server,
        pytest.raises(HttpError, match="more than 1 MB"),
    ):
        send_request(server.url, {})
    with serving(reply(200, gzip.compress(b'{"a": 1}'), Content_Encoding="gzip")) as server:
        assert send_request(server.url, {}).json() == {"a": 1}


def test_truncated_answer_is_an_error() -> None:
    with serving(reply(200, b"{", Content_Length="100")) as server, pytest.raises(HttpError) as failed:
        send_request(server.url, {})
    assert failed.value.status == 0


def test_silent_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_TIMEOUT_SECONDS", 0.2)
    http._open_pool.cache_clear()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(HttpError, match="timed out") as failed:
            send_request(f"http://127.0.0.1:{silent.getsockname()[1]}", {})
        assert time.monotonic() - began < 5.0
    http._open_pool.cache_clear()
    assert failed.value.status == 0


@pytest.mark.parametrize("body", [b"<html>", b"[1]"])
def test_body_that_is_not_a_json_object_is_an_error(body: bytes) -> None:
    with serving(reply(200, body)) as server, pytest.raises(HttpError, match="not "):
        send_request(server.url, {}).json()


def test_proxy_of_the_environment_is_used_with_its_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(reply(200)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("http://", "http://me:p%40ss@"))
        send_request("http://catalog.invalid/v1/config", {})
        monkeypatch.setenv("no_proxy", "catalog.invalid")
        with pytest.raises(HttpError):
            send_request("http://catalog.invalid/v1/config", {})
    ((_, path, headers),) = proxy.requests
    assert path == "http://catalog.invalid/v1/config"
    assert headers["proxy-authorization"] == "Basic bWU6cEBzcw=="
