"""`POST /notify`, over a real socket."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator

import pytest

from icemirror.errors import Transient
from icemirror.http.routes import Endpoints
from icemirror.http.server import StatusServer, start_server
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.settings.address import Address
from icemirror.telemetry import metric_names
from tests.unit.trigger.scene import BY_NAME, Scene
from tests.unit.trigger.sources.recorded_events import event
from trigger.listeners.notify import NotifyHandler
from trigger.sources.event_json import MAX_EVENT_BYTES
from trigger.sources.refusal import RefusalReason

TOKEN = "correct horse battery"  # noqa: S105
RIGHT = {"Authorization": f"Bearer {TOKEN}"}


class NotifyServer:
    """A server with `/notify`; `woken` counts how often it woke the rounds."""

    def __init__(self, scene: Scene, token: str | None, *, is_local: bool) -> None:
        self.woken = 0
        notify = NotifyHandler(scene.ingest, token, is_local, self.wake)
        endpoints = Endpoints(list, lambda: None, notify=notify)
        self.server: StatusServer = start_server(Address("127.0.0.1", 0), endpoints)

    def wake(self) -> None:
        self.woken += 1

    def post(self, body: bytes, path: str = "/notify", **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.address.port, timeout=5)
        try:
            connection.request(
                "POST", path, body, {name.replace("_", "-"): text for name, text in headers.items()}
            )
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@pytest.fixture
def notify_server(scene: Scene) -> Iterator[Callable[..., NotifyServer]]:
    servers: list[NotifyServer] = []

    def start(token: str | None = TOKEN, *, is_local: bool = False) -> NotifyServer:
        servers.append(NotifyServer(scene, token, is_local=is_local))
        return servers[-1]

    yield start
    for server in servers:
        server.server.close()


def test_notice_is_stored_before_it_is_accepted(
    scene: Scene, notify_server: Callable[..., NotifyServer]
) -> None:
    server = notify_server()
    assert server.post(BY_NAME, **RIGHT) == (202, '{"tables": ["shop.orders"]}')
    assert scene.table().dirty == 1
    assert server.woken == 1
    report = event("commit_report_java").replace(b"rest.raw.orders", b"rest.shop.orders")
    assert server.post(report, **RIGHT)[0] == 202
    assert scene.table().dirty == 2


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN, "Bearer \xe9"],
)
def test_wrong_token_is_refused_and_counted(
    scene: Scene, notify_server: Callable[..., NotifyServer], authorization: str
) -> None:
    status, body = notify_server(is_local=True).post(BY_NAME, Authorization=authorization)
    assert status == 401
    assert TOKEN not in body
    assert scene.metrics.tally[metric_names.REFUSED.name, RefusalReason.WRONG_TOKEN] == 1
    assert not scene.store.load(ALL_ROWS).tables


def test_requests_without_a_token_are_accepted_only_on_a_local_address(
    scene: Scene, notify_server: Callable[..., NotifyServer]
) -> None:
    assert notify_server(None, is_local=False).post(BY_NAME)[0] == 401
    assert notify_server(None, is_local=True).post(BY_NAME)[0] == 202


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"no", 400),
        (b'{"table":"a.b"}', 404),
        (b" " * (MAX_EVENT_BYTES + 1), 413),
        (b"[" * 17 + b"]" * 17, 400),
    ],
)
def test_sender_gets_the_error_and_nothing_is_stored(
    scene: Scene, notify_server: Callable[..., NotifyServer], body: bytes, status: int
) -> None:
    assert notify_server().post(body, **RIGHT)[0] == status
    assert scene.store.letters() == ()
    assert not scene.store.load(ALL_ROWS).tables


def test_body_of_unknown_length_is_not_read(notify_server: Callable[..., NotifyServer]) -> None:
    assert notify_server().post(b"", **RIGHT, Content_Length="-1")[0] == 411
    assert notify_server().post(b"", **RIGHT, Content_Length="9" * 30)[0] == 411


def test_cross_origin_browser_request_is_refused(notify_server: Callable[..., NotifyServer]) -> None:
    server = notify_server(None, is_local=True)
    assert server.post(BY_NAME, Origin="https://elsewhere.example")[0] == 403
    assert server.post(BY_NAME, Host="elsewhere.example")[0] == 403


def test_other_paths_refuse_a_post(notify_server: Callable[..., NotifyServer]) -> None:
    for path in ("/", "/api/status", "/notify/", "/metrics"):
        assert notify_server().post(BY_NAME, path, **RIGHT)[0] == 405, path


def test_unreachable_state_returns_503(
    scene: Scene, notify_server: Callable[..., NotifyServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise Transient("locked")

    monkeypatch.setattr("trigger.dispatch.ingest.apply", fail)
    assert notify_server().post(BY_NAME, **RIGHT)[0] == 503


def test_internal_failure_returns_500(
    notify_server: Callable[..., NotifyServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trigger.dispatch.ingest.parse_hints", lambda _: 1 / 0)
    assert notify_server().post(BY_NAME, **RIGHT) == (500, "failed; see the log\n")


@pytest.mark.parametrize(("size", "headers", "status"), [(3_000_000, RIGHT, 413), (3_000_000, {}, 401)])
def test_sender_of_a_large_body_gets_a_status(
    notify_server: Callable[..., NotifyServer], size: int, headers: dict[str, str], status: int
) -> None:
    """The sender sees the status, not a broken connection."""
    for _ in range(5):
        assert notify_server().post(b" " * size, **headers)[0] == status
