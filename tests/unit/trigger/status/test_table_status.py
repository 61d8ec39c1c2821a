"""The status of a table, as the JSON of the contract."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from icemirror.protocol.replay import Replay, ReplayEnd, ReplayProgress
from icemirror.protocol.rows import PlannedBacklog, SlotRow, SlotState, TableRow
from icemirror.result import ErrorResult
from icemirror.settings import TableSettings
from icemirror.step_results import Backlog, MeasuredBacklog, MirrorStatus
from tests.unit.icemirror.protocol.samples import (
    INVALID,
    POSITION,
    RUN,
    SLOT,
    TRANSIENT,
    dirty,
    owned,
    rows,
    slot,
)
from tests.unit.trigger.fakes import settings
from trigger.status.local_backlog import LocalBacklogs
from trigger.status.table_status import table_status, table_statuses


@pytest.fixture
def table(tmp_path: Path) -> TableSettings:
    return settings(tmp_path).tables[0]


def test_status_has_every_field_of_the_contract(table: TableSettings) -> None:
    row = dirty(at=90.0, position=POSITION, last_run=RUN, noticed_head="m4", failures=2, error=TRANSIENT)
    assert json.loads(
        json.dumps(
            table_status(
                table, rows(row), 100.0, measured=MeasuredBacklog(snapshots=2, events=50, since=90.0)
            )
        )
    ) == {
        "table": "shop.orders",
        "state": "waiting",
        "lag": {"seconds": 10.0, "snapshots": 2, "events": 50},
        "last_run": {
            "run_id": "run-7",
            "started_at": "1970-01-01T00:00:01.000+00:00",
            "ended_at": "1970-01-01T00:00:02.000+00:00",
            "outcome": "merged",
            "events": 5,
        },
        "failures": 2,
        "error": {"kind": "transient", "message": "the catalog did not answer"},
        "live_rows": 10,
        "index_bytes": 99,
        "cursor": {
            "version": 1,
            "sources": [{"uuid": "u", "snapshot_id": 1, "sequence_number": 1, "files_done": None}],
        },
        "head": "m4",
        "replay": None,
        "last_replay": None,
    }


def test_replay_and_the_result_of_the_last_one_are_shown(table: TableSettings) -> None:
    waiting = Replay("r2", 90.0, since_ms=5000, progress=ReplayProgress(3, 9, changed_rows=1, mark="m"))
    ended = ReplayEnd("r1", 80.0, "failed", error=INVALID)
    status = table_status(table, rows(dirty(replay=waiting, last_replay=ended)), 100.0)
    assert status["replay"] == {
        "replay_id": "r2",
        "requested_at": "1970-01-01T00:01:30.000+00:00",
        "full": False,
        "from_snapshot": None,
        "since": "1970-01-01T00:00:05.000+00:00",
        "to_snapshot": None,
        "events": 3,
        "of_events": 9,
        "changed_rows": 1,
    }
    assert status["last_replay"] == {
        "replay_id": "r1",
        "ended_at": "1970-01-01T00:01:20.000+00:00",
        "outcome": "failed",
        "error": {"kind": "invalid", "message": "a key is NULL"},
        "events": None,
        "of_events": None,
        "changed_rows": None,
    }


def test_unknown_values_are_null(table: TableSettings) -> None:
    unknown = table_status(table, rows(), 100.0)
    assert (unknown["state"], unknown["lag"]) == (
        "waiting",
        {"seconds": None, "snapshots": None, "events": None},
    )
    assert [unknown[key] for key in ("last_run", "error", "live_rows", "index_bytes", "cursor", "head")] == [
        None
    ] * 6


@pytest.mark.parametrize(
    ("row", "own_slot", "state"),
    [
        (TableRow("shop.orders", dirty=1, covered=1), None, "idle"),
        (dirty(), None, "waiting"),
        (dirty(), slot(SlotState.LAUNCHING), "launching"),
        (dirty(paused=True), slot(SlotState.LAUNCHING), "paused"),
        (TableRow("shop.orders", dirty=1, covered=1, paused=True), None, "paused"),
        (replace(owned(), paused=True), slot(SlotState.RUNNING), "running"),
        (dirty(paused=True, quarantined=True, error=INVALID), None, "blocked"),
        (dirty(), slot(SlotState.RUNNING), "waiting"),
        (owned(), slot(SlotState.RUNNING), "running"),
        (dirty(quarantined=True, error=INVALID), None, "blocked"),
        (dirty(quarantined=True, error=TRANSIENT), None, "quarantined"),
        (TableRow("shop.orders", look_error=INVALID), None, "blocked"),
        (TableRow("shop.orders", look_error=TRANSIENT), None, "waiting"),
        (dirty(look_error=INVALID), slot(SlotState.LAUNCHING), "blocked"),
        (dirty(look_error=INVALID, replay=Replay("r", 1.0)), None, "waiting"),
    ],
)
def test_state_of_a_table(table: TableSettings, row: TableRow, own_slot: SlotRow | None, state: str) -> None:
    assert table_status(table, rows(row, *([own_slot] if own_slot else [])), 100.0)["state"] == state


def test_missing_changelog_is_the_tables_error(table: TableSettings) -> None:
    found = table_status(table, rows(TableRow("shop.orders", look_error=INVALID)), 100.0)
    assert found["error"] == {"kind": "invalid", "message": "a key is NULL"}


def test_table_without_workers_shows_why_none_starts(table: TableSettings) -> None:
    quarantined = SlotRow(SLOT, quarantined=True, error="a job ended early")
    assert "a job ended early" in table_status(table, rows(dirty(), quarantined), 100.0)["error"]["message"]
    assert table_status(table, rows(dirty(), quarantined), 100.0, slots=2)["error"] is None


def test_table_whose_worker_died_before_picking_it_shows_why(table: TableSettings) -> None:
    failed = SlotRow(SLOT, failures=1, error="a job ended early; see /logs/a.log")
    found = table_status(table, rows(dirty(), failed), 100.0)
    assert found["error"]["message"] == "a job ended early; see /logs/a.log"
    assert table_status(table, rows(owned(), failed), 100.0)["error"] is None


def test_merged_table_has_no_lag(table: TableSettings) -> None:
    row = TableRow("shop.orders", dirty=3, covered=3, first_dirty_at=1.0)
    assert table_status(table, rows(row), 100.0)["lag"]["seconds"] == 0.0
    current = table_status(
        table, rows(dirty(at=90.0)), 100.0, measured=MeasuredBacklog(snapshots=0, events=0)
    )
    assert current["lag"]["seconds"] == 0.0


def test_lag_has_snapshots_and_events_from_jobs_and_heads(table: TableSettings, tmp_path: Path) -> None:
    planned = dirty(at=90.0, planned=PlannedBacklog(Backlog(snapshots=2, events=30, since=70.0), 1))
    (status,) = table_statuses([table], rows(planned), 100.0)
    assert status["lag"] == {"seconds": 30.0, "snapshots": 2, "events": 30}
    snapshots = [
        {
            "snapshot-id": number,
            "timestamp-ms": number * 1000,
            "summary": {"operation": "append", "added-records": "4"},
        }
        for number in (1, 2)
    ]
    snapshots[1]["parent-snapshot-id"] = 1
    head = tmp_path / "m.metadata.json"
    metadata = {"table-uuid": "u", "current-snapshot-id": 2, "snapshots": snapshots}
    head.write_text(json.dumps(metadata), encoding="utf-8")
    noticed = dirty(at=90.0, position=POSITION, noticed_head=f"file://{head}")
    assert table_status(table, rows(noticed), 100.0)["lag"]["events"] is None
    (status,) = table_statuses([table], rows(noticed), 100.0, local_backlogs=LocalBacklogs())
    assert status["lag"] == {"seconds": 98.0, "snapshots": 1, "events": 4}


def test_measured_backlog_takes_precedence_over_the_row(
    table: TableSettings,
) -> None:
    row = TableRow("shop.orders", dirty=3, covered=3, position=POSITION)
    measured = MeasuredBacklog(
        snapshots=2, events=5, since=40.0, mirror_status=MirrorStatus(cursor=None, live_rows=0, index_bytes=0)
    )
    found = table_status(table, rows(row), 100.0, measured=measured)
    assert (found["state"], found["lag"]["seconds"], found["live_rows"]) == ("waiting", 60.0, 0)
    assert (
        table_status(table, rows(), 100.0, measured=MeasuredBacklog(snapshots=0, events=0))["state"] == "idle"
    )


def test_unreadable_table_is_not_idle_and_shows_why(table: TableSettings) -> None:
    found = table_status(table, rows(), 100.0, measured=INVALID)
    assert (found["state"], found["error"]["message"]) == ("blocked", "a key is NULL")


@pytest.mark.parametrize(("error", "state"), [(INVALID, "blocked"), (TRANSIENT, "waiting")])
def test_merged_table_that_is_unreadable_is_not_idle_and_its_lag_is_unknown(
    table: TableSettings, error: ErrorResult, state: str
) -> None:
    row = TableRow("shop.orders", dirty=3, covered=3, position=POSITION)
    unknown = {"seconds": None, "snapshots": None, "events": None}
    found = table_status(table, rows(row), 100.0, measured=error)
    assert (found["state"], found["lag"]) == (state, unknown)
    found = table_status(table, rows(replace(row, look_error=error)), 100.0)
    assert (found["state"], found["lag"]) == (state, unknown)


def test_blocking_error_is_shown_before_a_launch_error(table: TableSettings) -> None:
    quarantined = SlotRow(SLOT, quarantined=True, error="a job ended early")
    found = table_status(table, rows(dirty(), quarantined), 100.0, measured=INVALID)
    assert found["error"]["message"] == "a key is NULL"


def test_every_configured_table_is_listed(tmp_path: Path) -> None:
    found = table_statuses(settings(tmp_path).tables, rows(), 1.0)
    assert [status["table"] for status in found] == ["shop.orders", "shop.items"]
