"""`POST /notify`, over a real socket."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator

import pytest

from icemirror.errors import Transient
from icemirror.http.server import Endpoints, StatusServer, start_server
from icemirror.protocol.reads import EVERYTHING
from icemirror.settings.address import Address
from icemirror.telemetry import names
from tests.unit.trigger.scene import BY_NAME, Scene
from tests.unit.trigger.sources.test_sources import event
from trigger.listeners.notify import Notify
from trigger.sources.event_json import MAX_EVENT_BYTES
from trigger.sources.refusal import RefusalReason

TOKEN = "correct horse battery"  # noqa: S105
RIGHT = {"Authorization": f"Bearer {TOKEN}"}


class Door:
    """A server with `/notify`, and how often it woke the rounds."""

    def __init__(self, scene: Scene, token: str | None, *, is_local: bool) -> None:
        self.woken = 0
        notify = Notify(scene.ingest, token, is_local, self.wake)
        sources = Endpoints(list, lambda: None, notify=notify)
        self.server: StatusServer = start_server(Address("127.0.0.1", 0), sources)

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
def door(scene: Scene) -> Iterator[Callable[..., Door]]:
    doors: list[Door] = []

    def open_door(token: str | None = TOKEN, *, is_local: bool = False) -> Door:
        doors.append(Door(scene, token, is_local=is_local))
        return doors[-1]

    yield open_door
    for one in doors:
        one.server.close()


def test_a_notice_is_stored_before_it_is_accepted(scene: Scene, door: Callable[..., Door]) -> None:
    opened = door()
    assert opened.post(BY_NAME, **RIGHT) == (202, '{"tables": ["shop.orders"]}')
    assert scene.table().dirty == 1
    assert opened.woken == 1
    report = event("commit_report_java").replace(b"rest.raw.orders", b"rest.shop.orders")
    assert opened.post(report, **RIGHT)[0] == 202
    assert scene.table().dirty == 2


@pytest.mark.parametrize(
    "shown", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN, "Bearer \xe9"]
)
def test_the_wrong_token_is_refused_and_counted(scene: Scene, door: Callable[..., Door], shown: str) -> None:
    status, said = door(is_local=True).post(BY_NAME, Authorization=shown)
    assert status == 401
    assert TOKEN not in said
    assert scene.metrics.tally[names.REFUSED.name, RefusalReason.WRONG_TOKEN] == 1
    assert not scene.store.load(EVERYTHING).tables


def test_without_a_token_only_this_machine_may_send(scene: Scene, door: Callable[..., Door]) -> None:
    assert door(None, is_local=False).post(BY_NAME)[0] == 401
    assert door(None, is_local=True).post(BY_NAME)[0] == 202


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"no", 400),
        (b'{"table":"a.b"}', 404),
        (b" " * (MAX_EVENT_BYTES + 1), 413),
        (b"[" * 17 + b"]" * 17, 400),
    ],
)
def test_sender_gets_the_error_and_nothing_is_kept(
    scene: Scene, door: Callable[..., Door], body: bytes, status: int
) -> None:
    assert door().post(body, **RIGHT)[0] == status
    assert scene.store.letters() == ()
    assert not scene.store.load(EVERYTHING).tables


def test_a_body_of_unknown_length_is_not_read(door: Callable[..., Door]) -> None:
    assert door().post(b"", **RIGHT, Content_Length="-1")[0] == 411
    assert door().post(b"", **RIGHT, Content_Length="9" * 30)[0] == 411


def test_a_browser_cannot_send_for_a_page(door: Callable[..., Door]) -> None:
    opened = door(None, is_local=True)
    assert opened.post(BY_NAME, Origin="https://elsewhere.example")[0] == 403
    assert opened.post(BY_NAME, Host="elsewhere.example")[0] == 403


def test_other_paths_refuse_a_post(door: Callable[..., Door]) -> None:
    for path in ("/", "/api/status", "/notify/", "/metrics"):
        assert door().post(BY_NAME, path, **RIGHT)[0] == 405, path


def test_unreachable_state_asks_the_sender_to_retry(
    scene: Scene, door: Callable[..., Door], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> None:
        raise Transient("locked")

    monkeypatch.setattr("trigger.dispatch.ingest.apply", silent)
    assert door().post(BY_NAME, **RIGHT)[0] == 503


def test_a_failure_of_ours_is_an_answer(door: Callable[..., Door], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trigger.dispatch.ingest.parse_hints", lambda _: 1 / 0)
    assert door().post(BY_NAME, **RIGHT) == (500, "failed; see the log\n")


@pytest.mark.parametrize(("size", "headers", "status"), [(3_000_000, RIGHT, 413), (3_000_000, {}, 401)])
def test_sender_of_a_large_body_gets_the_limit(
    door: Callable[..., Door], size: int, headers: dict[str, str], status: int
) -> None:
    """The sender sees the status, not a broken connection."""
    for _ in range(5):
        assert door().post(b" " * size, **headers)[0] == status
