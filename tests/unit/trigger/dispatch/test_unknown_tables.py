"""Tables missing from the jobs' configuration: few launches, a reason in the status, no effect on others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from icemirror.errors import Kind
from icemirror.protocol.events import ResumeRequested, RunState, WorkerId
from icemirror.protocol.row_selection import ALL_ROWS
from icemirror.protocol.rows import SlotId, SlotState, TableRow
from icemirror.protocol.worker import WorkerLimits
from icemirror.result import ErrorResult
from icemirror.step_results import NothingToMerge
from spark_job.worker.worker import WorkerDependencies, run_worker
from tests.support.fake_tables import FakeTables
from tests.unit.icemirror.protocol.samples import POSITION
from tests.unit.trigger.fakes import FakeHeads
from tests.unit.trigger.scene import Scene
from trigger.status.table_status import table_statuses
from trigger.tables import registry

TWO_TABLES = """
tables:
  - {namespace: shop, changelog_table: orders_changelog, mirror_table: orders, primary_keys: [id]}
  - {namespace: shop, changelog_table: items_changelog, mirror_table: items, primary_keys: [id]}
"""
ORDERS, ITEMS = "shop.orders", "shop.items"


class JobsScene(Scene):
    """A trigger, and jobs with the tables of `job_tables`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, TWO_TABLES)
        self.job_tables: frozenset[str] = frozenset({ITEMS})
        self.discovery_error: ErrorResult | None = None
        self.merged: list[str] = []

    def run_for(self, seconds: float, pause: float = 20.0) -> int:
        """Run rounds of the trigger, with jobs that end before the next one; return the number of launches."""
        before, ends_at = len(self.launcher.launches), self.now + seconds
        while self.now < ends_at:
            self.sweep(pause)
            slot = self.store.load(ALL_ROWS).slot(SlotId("default", 0))
            if slot.state is SlotState.LAUNCHING:
                self._work(WorkerId(slot.id, slot.gen, str(slot.run_id)))
        return len(self.launcher.launches) - before

    def _work(self, me: WorkerId) -> None:
        def advance(table: str) -> NothingToMerge:
            self.merged.append(table)
            return NothingToMerge(head_location=str(self.table(table).noticed_head), mirror_status=POSITION)

        def sleep(seconds: float) -> None:
            self.now += seconds

        dependencies = WorkerDependencies(
            store=self.store,
            policy=self.policy,
            limits=WorkerLimits(linger_seconds=5.0),
            tables=FakeTables(lambda: self.job_tables, advance, find_error=lambda: self.discovery_error),
            stopping=lambda: False,
            clock=lambda: self.now,
            sleep=sleep,
            jitter=lambda: 0.0,
        )
        run_worker(me, dependencies)
        self.launcher.runs[me.run_id] = RunState.ENDED

    def status(self) -> dict[str, dict[str, object]]:
        found = table_statuses(self.dispatcher.registry.tables, self.dispatcher.sweep(), self.now)
        return {status["table"]: status for status in found}


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobsScene]:
    catalog = FakeHeads({"shop.orders_changelog": "o1", "shop.items_changelog": "i1"})
    monkeypatch.setattr(registry, "open_head_source", lambda properties, name: catalog)
    scene = JobsScene(tmp_path)
    scene.catalogs[None] = catalog
    yield scene
    scene.close()


def test_table_unknown_to_all_jobs_is_quarantined_after_a_few_launches(jobs: JobsScene) -> None:
    assert jobs.run_for(2400.0) == jobs.policy.max_failures
    row = jobs.table(ORDERS)
    assert (row.quarantined, row.failures, row.owner) == (True, jobs.policy.max_failures, None)
    assert row.error is not None
    assert row.error.kind is Kind.TRANSIENT, "jobs with this table may be deployed soon"
    assert "missing from the jobs' configuration" in row.error.message
    assert jobs.status()[ORDERS]["state"] == "quarantined"
    assert jobs.slot().failures == 0, "no job failed"


def test_table_unknown_to_jobs_after_its_quarantine_is_blocked(jobs: JobsScene) -> None:
    jobs.run_for(2400.0)
    jobs.run_for(4 * jobs.policy.probation_seconds)
    row = jobs.table(ORDERS)
    assert (row.quarantined, row.failures) == (True, jobs.policy.max_failures + 1)
    assert row.error is not None
    assert row.error.kind is Kind.INVALID


def test_other_tables_are_merged_meanwhile(jobs: JobsScene) -> None:
    jobs.run_for(2400.0)
    assert jobs.merged == [ITEMS]
    for number in range(2, 5):
        jobs.catalogs[None].heads["shop.items_changelog"] = f"i{number}"
        assert jobs.run_for(60.0) == 1
    assert jobs.table(ITEMS).covered == jobs.table(ITEMS).dirty
    assert jobs.merged == [ITEMS] * 4


def test_launches_back_off(jobs: JobsScene) -> None:
    launched_at: list[float] = []
    while not launched_at or not jobs.table(ORDERS).quarantined:
        if jobs.run_for(1.0, pause=1.0):
            launched_at.append(jobs.now)
    pauses = [later - earlier for earlier, later in pairwise(launched_at)]
    assert pauses == sorted(pauses)
    assert pauses[-1] > 5 * pauses[0]


def test_job_with_the_table_clears_its_failures(jobs: JobsScene) -> None:
    jobs.run_for(25.0)
    assert jobs.table(ORDERS).failures == 1
    jobs.job_tables = frozenset({ORDERS, ITEMS})
    jobs.run_for(60.0)
    row = jobs.table(ORDERS)
    assert (row.failures, row.error, row.covered) == (0, None, row.dirty)


def test_resume_lifts_the_quarantine_once_jobs_have_the_table(jobs: JobsScene) -> None:
    jobs.run_for(2400.0)
    jobs.job_tables = frozenset({ORDERS, ITEMS})
    assert jobs.run_for(200.0) == 0
    jobs.apply(ResumeRequested(jobs.now, ORDERS))
    assert jobs.run_for(60.0) == 1
    assert jobs.table(ORDERS).covered == jobs.table(ORDERS).dirty


def test_job_whose_discovery_failed_reports_it_and_is_retried_later(jobs: JobsScene) -> None:
    jobs.discovery_error = ErrorResult(kind=Kind.TRANSIENT, message="the catalog did not answer")
    assert jobs.run_for(2400.0) == jobs.policy.max_failures
    row = jobs.table(ORDERS)
    assert (row.quarantined, row.error) == (True, jobs.discovery_error)
    jobs.discovery_error, jobs.job_tables = None, frozenset({ORDERS, ITEMS})
    jobs.run_for(2 * jobs.policy.probation_seconds)
    assert jobs.table(ORDERS).covered == jobs.table(ORDERS).dirty, "no user action was required"


def test_row_of_an_unconfigured_table_ends_no_worker(jobs: JobsScene) -> None:
    jobs.store.compare_and_set(TableRow("shop.gone", dirty=1, last_dirty_at=1.0))
    jobs.job_tables = frozenset({ORDERS, ITEMS})
    jobs.sweep(1.0)
    began = jobs.now
    jobs.run_for(20.0)
    assert jobs.now - began >= 24.9, "it lingered"
    assert jobs.table("shop.gone").failures == 0
