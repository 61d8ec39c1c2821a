"""The trigger logs every turn of its jobs once, and every quarantine once."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from icemirror.protocol.rows import Rows, TableRow
from icemirror.result import ErrorResult, SliceResult, TableResult
from icemirror.stores.sqlite import SqliteStore
from icemirror.stores.store import RunResult
from icemirror.telemetry import names
from icemirror.telemetry.metrics import NoMetrics
from icemirror.telemetry.names import Metric
from tests.unit.icemirror.protocol.samples import INVALID, TRANSIENT, rows
from trigger.status.run_reporter import RunReporter

TABLE = "shop.orders"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "state.db") as opened:
        yield opened


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, RunReporter.__module__)
    return caplog


def part(events: int) -> SliceResult:
    counts = dict.fromkeys(("data_files", "delete_files", "data_bytes", "delete_bytes", "index_bytes"), 0)
    return SliceResult(
        snapshot_id=1,
        events=events,
        inserted=3,
        updated=2,
        deleted=1,
        stale=0,
        unchanged=0,
        seconds=0.1,
        seconds_by_step={},
        **counts,
    )


def ended(error: ErrorResult | None = None, *slices: SliceResult) -> RunResult:
    result = TableResult(
        table=TABLE,
        outcome="failed" if error else "merged",
        live_rows=None if error else 90,
        slices=slices,
        seconds=0.7,
        error=error,
    )
    return RunResult("run-7", 1.0, result)


def lines(logged: pytest.LogCaptureFixture) -> list[tuple[str, str, dict[str, Any]]]:
    return [(one.levelname, one.getMessage(), vars(one)["fields"]) for one in logged.records]


def report(reporting: RunReporter, found: Rows, rounds: int = 3) -> None:
    for _ in range(rounds):
        reporting.report(found)


def test_a_turn_that_ended_well_is_logged_once(store: SqliteStore, logged: pytest.LogCaptureFixture) -> None:
    reporting = RunReporter(store, NoMetrics(), store.last_cursor())
    store.record_result(ended(None, part(20), part(5)))
    report(reporting, rows())
    ((level, event, fields),) = lines(logged)
    assert (level, event) == ("INFO", "turn ended")
    assert fields == {
        "table": TABLE,
        "run": "run-7",
        "outcome": "merged",
        "commits": 2,
        "events": 25,
        "rows": 12,
        "rejected": 0,
        "live_rows": 90,
        "seconds": 0.7,
    }


@pytest.mark.parametrize(
    ("error", "advice"), [(TRANSIENT, "retried automatically"), (INVALID, "icemirror resume")]
)
def test_every_failure_is_logged_once_with_its_reason_and_what_to_do(
    store: SqliteStore, logged: pytest.LogCaptureFixture, error: ErrorResult, advice: str
) -> None:
    reporting = RunReporter(store, NoMetrics(), store.last_cursor())
    for _ in range(2):
        store.record_result(ended(error, part(5)))
        report(reporting, rows())
    assert [line[:2] for line in lines(logged)] == [("WARNING", "turn failed")] * 2
    fields = lines(logged)[0][2]
    assert (fields["table"], fields["run"], fields["events"]) == (TABLE, "run-7", 5)
    assert (fields["kind"], fields["reason"]) == (error.kind, error.message)
    assert advice in fields["advice"]


@pytest.mark.parametrize(("error", "advice"), [(TRANSIENT, "retried after"), (INVALID, "fix the cause")])
def test_every_quarantine_is_logged_once_with_its_reason_and_what_to_do(
    store: SqliteStore, logged: pytest.LogCaptureFixture, error: ErrorResult, advice: str
) -> None:
    reporting = RunReporter(store, NoMetrics(), store.last_cursor())
    aside = rows(TableRow(TABLE, dirty=1, failures=3, quarantined=True, error=error))
    for found in (aside, rows(TableRow(TABLE, dirty=2)), aside):
        report(reporting, found)
    assert [line[:2] for line in lines(logged)] == [("ERROR", "table quarantined")] * 2
    fields = lines(logged)[0][2]
    assert (fields["table"], fields["failures"]) == (TABLE, 3)
    assert (fields["kind"], fields["reason"]) == (error.kind, error.message)
    assert advice in fields["advice"]
    assert f"icemirror resume --table {TABLE}" in fields["advice"]


def test_table_quarantined_before_the_start_is_reported(
    store: SqliteStore, logged: pytest.LogCaptureFixture
) -> None:
    store.record_result(ended(INVALID))
    reporting = RunReporter(store, NoMetrics(), store.last_cursor())
    report(reporting, rows(TableRow(TABLE, quarantined=True, error=INVALID)))
    assert [line[1] for line in lines(logged)] == ["table quarantined"]


class Gauges(NoMetrics):
    """The last value of each gauge, and how often each counter counted."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], float] = {}
        self.counted: list[str] = []

    def gauge(self, metric: Metric, value: float, **labels: str) -> None:
        self.values[metric.name, labels["table"]] = value

    def count(self, metric: Metric, amount: int = 1, **labels: str) -> None:
        self.counted.append(metric.name)


def test_table_that_is_not_configured_is_not_reported_until_it_is_again(
    store: SqliteStore, logged: pytest.LogCaptureFixture
) -> None:
    gauges, known = Gauges(), {TABLE, "shop.items"}
    reporting = RunReporter(store, gauges, "", known=lambda: frozenset(known))
    late: dict[str, Any] = {
        "dirty": 1,
        "first_dirty_at": 1.0,
        "failures": 3,
        "quarantined": True,
        "error": INVALID,
    }
    found = rows(TableRow(TABLE, **late), TableRow("shop.items", dirty=1, covered=1))
    lag = (names.LAG_SECONDS.name, TABLE)

    known.remove(TABLE)
    report(reporting, found)
    assert (lines(logged), gauges.counted, lag in gauges.values) == ([], [], False)

    known.add(TABLE)
    report(reporting, found)
    assert [line[1] for line in lines(logged)] == ["table quarantined"]
    assert gauges.values[lag] > 0

    known.remove(TABLE)
    report(reporting, found)
    assert gauges.values[lag] == 0
    assert gauges.values[names.LAG_SNAPSHOTS.name, TABLE] == 0
    assert [line[1] for line in lines(logged)] == ["table quarantined"]
