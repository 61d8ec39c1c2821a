"""What is sent to Sentry, captured by a recording transport."""

from __future__ import annotations

import json
import subprocess
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
from spark_job.iceberg.divergence import CursorExpired
from spark_job.inspect.explain.requested_key import BadKey
from trigger.sources.refusal import EventRefused, RefusalReason

DSN = "http://public@127.0.0.1:9/1"


class KeptTransport(Transport):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Envelope] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self.kept.append(envelope)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [dict(event) for envelope in self.kept if (event := envelope.get_event())]


@pytest.fixture
def sentry() -> Iterator[tuple[Report, KeptTransport]]:
    hooks = sys.excepthook, threading.Thread.start, threading.Thread.run
    transport = KeptTransport()
    yield open_sentry(DSN, project_ref="shop", environment="dev", transport=transport), transport
    sentry_sdk.get_global_scope().clear()
    sentry_sdk.get_global_scope().set_client(None)
    sys.excepthook = hooks[0]
    threading.Thread.start, threading.Thread.run = hooks[1:]  # type: ignore[method-assign]
    forget_secrets()


def merge_row(row: str) -> None:
    """Fails with a row's value in its local variables and in the library's message."""
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


def test_an_error_arrives_with_release_environment_and_tags(sentry: tuple[Report, KeptTransport]) -> None:
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
    assert [part["type"] for part in event["exception"]["values"]] == ["ValueError", "Invalid"]


def test_tags_of_one_table_do_not_stay_for_the_next(sentry: tuple[Report, KeptTransport]) -> None:
    report, transport = sentry
    with bind(table="shop.orders", run="r-1"):
        report(fail("x"))
    report(fail("x"))
    assert "table" not in transport.events[1]["tags"]


def test_no_row_value_and_no_secret_leaves(sentry: tuple[Report, KeptTransport]) -> None:
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
    cause, ours = event["exception"]["values"]
    assert cause["value"] == WITHHELD
    assert ours["value"] == "shop.orders: column id is not a long; secret ***"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            CursorExpired("raw.orders_changelog: its history has expired"),
            "raw.orders_changelog: its history has expired",
        ),
        (EventRefused(RefusalReason.MALFORMED, "no JSON"), "no JSON"),
        (BadKey("'Ann-row-value' is no number"), WITHHELD),
    ],
)
def test_messages_of_our_errors_are_sent_and_others_withheld(
    sentry: tuple[Report, KeptTransport], error: Exception, told: str
) -> None:
    report, transport = sentry
    report(error)
    (event,) = transport.events
    assert event["exception"]["values"][0]["value"] == told


def test_logged_errors_are_not_sent_by_themselves(sentry: tuple[Report, KeptTransport]) -> None:
    _, transport = sentry
    get_log("x").failure("table failed", fail("x"))
    assert transport.events == []


def test_uncaught_error_is_sent_and_stripped() -> None:
    script = f"""
import json
from sentry_sdk.transport import Transport
from icemirror.telemetry.sentry import open_sentry

class Printed(Transport):
    def capture_envelope(self, envelope):
        print(json.dumps(envelope.get_event(), default=str))

open_sentry({DSN!r}, project_ref="p", environment="e", transport=Printed())
row = "Ann-" + "row-value"
raise ValueError(row)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["exception"]["values"][0]["type"] == "ValueError"
    assert "Ann-row-value" not in done.stdout


@pytest.mark.parametrize("dsn", [None, ""])
def test_without_an_address_nothing_is_loaded_or_sent(dsn: str | None) -> None:
    script = f"""
import sys
from icemirror.telemetry.sentry import open_sentry
open_sentry({dsn!r}, project_ref="p", environment="e")(ValueError("x"))
sys.exit("sentry_sdk" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_without_the_package_it_warns_and_goes_on() -> None:
    script = f"""
import sys
sys.modules["sentry_sdk"] = None
from icemirror.telemetry.logs import configure_logs
from icemirror.telemetry.sentry import open_sentry
configure_logs(project_ref="p", environment="e", log_format="text")
open_sentry({DSN!r}, project_ref="p", environment="e")(ValueError("x"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Sentry disabled, install icemirror[telemetry]" in done.stderr
