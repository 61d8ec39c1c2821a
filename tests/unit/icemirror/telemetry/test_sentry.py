"""Reports to Sentry, captured by a recording transport."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from icemirror.errors import Invalid
from icemirror.telemetry.logs import bind, get_log
from icemirror.telemetry.redaction import forget_secrets, register_secret
from icemirror.telemetry.sentry import WITHHELD, Report, open_sentry
from spark_job.commands.explain.requested_key import BadKey
from spark_job.iceberg.catalogs import ChangelogNotFound
from trigger.sources.refusal import EventRefused, RefusalReason

DSN = "http://public@127.0.0.1:9/1"


class RecordingTransport(Transport):
    def __init__(self) -> None:
        super().__init__()
        self.envelopes: list[Envelope] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self.envelopes.append(envelope)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [dict(event) for envelope in self.envelopes if (event := envelope.get_event())]


@pytest.fixture
def sentry() -> Iterator[tuple[Report, RecordingTransport]]:
    hooks = sys.excepthook, threading.Thread.start, threading.Thread.run
    transport = RecordingTransport()
    yield open_sentry(DSN, project_ref="shop", environment="dev", transport=transport), transport
    sentry_sdk.get_global_scope().clear()
    sentry_sdk.get_global_scope().set_client(None)
    sys.excepthook = hooks[0]
    threading.Thread.start, threading.Thread.run = hooks[1:]  # type: ignore[method-assign]
    forget_secrets()


def merge_row(row: str) -> None:
    """Fail with a row's value in a local variable and in the library's message."""
    in_a_local_variable = row
    try:
        int(in_a_local_variable)
    except ValueError as cause:
        raise Invalid("shop.orders: column id is not a long; secret hunter2") from cause


def fail(row: str) -> Invalid:
    try:
        merge_row(row)
    except Invalid as error:
        return error
    raise AssertionError


def test_error_is_sent_with_release_environment_and_tags(sentry: tuple[Report, RecordingTransport]) -> None:
    report, transport = sentry
    with bind(table="shop.orders", run="r-1", batch="b-2"):
        report(fail("x"))
    (event,) = transport.events
    assert event["release"].startswith("icemirror@")
    assert event["environment"] == "dev"
    assert event["tags"] == {
        "service": "iceberg-merger",
        "project_ref": "shop",
        "table": "shop.orders",
        "run": "r-1",
        "batch": "b-2",
    }
    assert [error["type"] for error in event["exception"]["values"]] == ["ValueError", "Invalid"]


def test_tags_of_a_table_are_not_kept_for_the_next(sentry: tuple[Report, RecordingTransport]) -> None:
    report, transport = sentry
    with bind(table="shop.orders", run="r-1"):
        report(fail("x"))
    report(fail("x"))
    assert "table" not in transport.events[1]["tags"]


def test_no_row_value_and_no_secret_is_sent(sentry: tuple[Report, RecordingTransport]) -> None:
    report, transport = sentry
    register_secret("hunter2")
    get_log("x").error("logged before: Ann-row-value")
    sentry_sdk.set_extra("row", "Ann-row-value")
    sentry_sdk.add_breadcrumb(message="Ann-row-value")
    sentry_sdk.set_user({"id": "Ann-row-value"})
    report(fail("Ann-row-value"))
    (event,) = transport.events
    text = json.dumps(event, default=str)
    assert "Ann" not in text
    assert "hunter2" not in text
    assert '"vars"' not in text
    assert sentry_sdk.get_client().options["include_local_variables"] is False
    cause, invalid = event["exception"]["values"]
    assert cause["value"] == WITHHELD
    assert invalid["value"] == "shop.orders: column id is not a long; secret ***"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            ChangelogNotFound("raw.orders_changelog: no such table"),
            "raw.orders_changelog: no such table",
        ),
        (EventRefused(RefusalReason.MALFORMED, "no JSON"), "no JSON"),
        (BadKey("'Ann-row-value' is no number"), WITHHELD),
    ],
)
def test_messages_of_our_errors_are_sent_and_others_withheld(
    sentry: tuple[Report, RecordingTransport], error: Exception, message: str
) -> None:
    report, transport = sentry
    report(error)
    (event,) = transport.events
    assert event["exception"]["values"][0]["value"] == message


def test_logged_errors_are_not_sent(sentry: tuple[Report, RecordingTransport]) -> None:
    _, transport = sentry
    get_log("x").failure("table failed", fail("x"))
    assert transport.events == []
