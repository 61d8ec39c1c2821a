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
from icemirror.stores.store import TurnResult
from icemirror.telemetry import metric_names
from icemirror.telemetry.metric_names import Metric
from icemirror.telemetry.metrics import NoMetrics
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


def slice_result(events: int) -> SliceResult:
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


def run_result(error: ErrorResult | None = None, *slices: SliceResult) -> TurnResult:
    result = TableResult(
        table=TABLE,
        outcome="failed" if error else "merged",
        live_rows=None if error else 90,
        slices=slices,
        seconds=0.7,
        error=error,
    )
    return TurnResult("run-7", 1.0, result)


def lines(logged: pytest.LogCaptureFixture) -> list[tuple[str, str, dict[str, Any]]]:
    return [(record.levelname, record.getMessage(), vars(record)["fields"]) for record in logged.records]


def report(reporter: RunReporter, found: Rows, rounds: int = 3) -> None:
    for _ in range(rounds):
        reporter.report(found)


def test_successful_turn_is_logged_once(store: SqliteStore, logged: pytest.LogCaptureFixture) -> None:
    reporter = RunReporter(store, NoMetrics(), store.last_cursor())
    store.record_result(run_result(None, slice_result(20), slice_result(5)))
    report(reporter, rows())
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
def test_every_failure_is_logged_once_with_reason_and_remedy(
    store: SqliteStore, logged: pytest.LogCaptureFixture, error: ErrorResult, advice: str
) -> None:
    reporter = RunReporter(store, NoMetrics(), store.last_cursor())
    for _ in range(2):
        store.record_result(run_result(error, slice_result(5)))
        report(reporter, rows())
    assert [line[:2] for line in lines(logged)] == [("WARNING", "turn failed")] * 2
    fields = lines(logged)[0][2]
    assert (fields["table"], fields["run"], fields["events"]) == (TABLE, "run-7", 5)
    assert (fields["kind"], fields["reason"]) == (error.kind, error.message)
    assert advice in fields["advice"]


@pytest.mark.parametrize(("error", "advice"), [(TRANSIENT, "retried after"), (INVALID, "fix the cause")])
def test_every_quarantine_is_logged_once_with_reason_and_remedy(
    store: SqliteStore, logged: pytest.LogCaptureFixture, error: ErrorResult, advice: str
) -> None:
    reporter = RunReporter(store, NoMetrics(), store.last_cursor())
    quarantined = rows(TableRow(TABLE, dirty=1, failures=3, quarantined=True, error=error))
    for found in (quarantined, rows(TableRow(TABLE, dirty=2)), quarantined):
        report(reporter, found)
    assert [line[:2] for line in lines(logged)] == [("ERROR", "table quarantined")] * 2
    fields = lines(logged)[0][2]
    assert (fields["table"], fields["failures"]) == (TABLE, 3)
    assert (fields["kind"], fields["reason"]) == (error.kind, error.message)
    assert advice in fields["advice"]
    assert f"icemirror resume --table {TABLE}" in fields["advice"]


def test_table_quarantined_before_the_start_is_reported(
    store: SqliteStore, logged: pytest.LogCaptureFixture
) -> None:
    store.record_result(run_result(INVALID))
    reporter = RunReporter(store, NoMetrics(), store.last_cursor())
    report(reporter, rows(TableRow(TABLE, quarantined=True, error=INVALID)))
    assert [line[1] for line in lines(logged)] == ["table quarantined"]


class Gauges(NoMetrics):
    """Records the last value of each gauge and the names of counted metrics."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], float] = {}
        self.counted: list[str] = []

    def gauge(self, metric: Metric, value: float, **labels: str) -> None:
        self.values[metric.name, labels["table"]] = value

    def count(self, metric: Metric, amount: int = 1, **labels: str) -> None:
        self.counted.append(metric.name)


def test_unconfigured_table_is_not_reported_until_it_is_configured_again(
    store: SqliteStore, logged: pytest.LogCaptureFixture
) -> None:
    gauges, known = Gauges(), {TABLE, "shop.items"}
    reporter = RunReporter(store, gauges, "", configured_tables=lambda: frozenset(known))
    fields: dict[str, Any] = {
        "dirty": 1,
        "first_dirty_at": 1.0,
        "failures": 3,
        "quarantined": True,
        "error": INVALID,
    }
    found = rows(TableRow(TABLE, **fields), TableRow("shop.items", dirty=1, covered=1))
    lag = (metric_names.LAG_SECONDS.name, TABLE)

    known.remove(TABLE)
    report(reporter, found)
    assert (lines(logged), gauges.counted, lag in gauges.values) == ([], [], False)

    known.add(TABLE)
    report(reporter, found)
    assert [line[1] for line in lines(logged)] == ["table quarantined"]
    assert gauges.values[lag] > 0

    known.remove(TABLE)
    report(reporter, found)
    assert gauges.values[lag] == 0
    assert gauges.values[metric_names.LAG_SNAPSHOTS.name, TABLE] == 0
    assert [line[1] for line in lines(logged)] == ["table quarantined"]
