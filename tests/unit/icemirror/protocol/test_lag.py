"""The lag of a table, computed from its row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from icemirror.protocol.events import Completed, Noticed, Progressed, TurnEnded
from icemirror.protocol.lag import Lag, compute_lag
from icemirror.protocol.rows import PlannedBacklog, TableRow
from icemirror.protocol.step import step
from icemirror.step_results import Backlog
from tests.unit.icemirror.protocol.samples import ME, OPTIONS, POLICY, dirty, owned, rows

BACKLOG = Backlog(snapshots=2, events=30, since=70.0)
PLANNED = PlannedBacklog(BACKLOG, dirty=1)


@pytest.mark.parametrize(
    ("row", "lag"),
    [
        (TableRow("t"), Lag()),
        (TableRow("t", dirty=3, covered=3), Lag(0.0, 0, 0)),
        (dirty(at=90.0), Lag(10.0)),
        (dirty(at=90.0, planned=PLANNED), Lag(30.0, 2, 30)),
        (dirty(at=90.0, planned=PlannedBacklog(Backlog(snapshots=0, events=0), 1)), Lag(10.0, 0, 0)),
        (dirty(at=90.0, planned=PlannedBacklog(Backlog(snapshots=1, events=4), 1)), Lag(10.0, 1, 4)),
    ],
)
def test_lag_is_computed_from_notices_and_plan(row: TableRow, lag: Lag) -> None:
    assert compute_lag(row, 100.0) == lag


def test_after_another_notice_only_the_age_of_the_backlog_is_known() -> None:
    row = replace(dirty(at=90.0, planned=PLANNED), dirty=2)
    assert compute_lag(row, 100.0) == Lag(30.0)
    assert compute_lag(row, 100.0, lambda _: Backlog(snapshots=3, events=40, since=70.0)) == Lag(30.0, 3, 40)


def test_empty_measurement_after_a_notice_is_ignored() -> None:
    assert compute_lag(dirty(at=90.0), 100.0, lambda _: Backlog(snapshots=0, events=0)) == Lag(10.0)


def test_plan_after_all_notices_wins_over_a_measurement() -> None:
    assert compute_lag(dirty(at=90.0, planned=PLANNED), 100.0, lambda _: None) == Lag(30.0, 2, 30)


@pytest.mark.parametrize(
    "report",
    [
        Progressed(5.0, ME, "shop.orders", planned=PLANNED),
        TurnEnded(5.0, ME, "shop.orders", planned=PLANNED, releases_table=True),
    ],
)
def test_worker_reports_the_backlog_of_its_plan(report: Progressed | TurnEnded) -> None:
    reported = step(rows(owned()), report, POLICY).row
    assert isinstance(reported, TableRow)
    assert compute_lag(reported, 100.0) == Lag(30.0, 2, 30)
    noticed = step(rows(reported), Noticed(6.0, "shop.orders", OPTIONS), POLICY).row
    assert isinstance(noticed, TableRow)
    assert compute_lag(noticed, 100.0) == Lag(30.0)


def test_empty_plan_leaves_no_lag() -> None:
    row = owned(planned=PLANNED)
    done = step(rows(row), Completed(5.0, ME, "shop.orders", 1, 4.0, "m1"), POLICY).row
    assert isinstance(done, TableRow)
    assert (done.planned, compute_lag(done, 100.0)) == (None, Lag(0.0, 0, 0))
